import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type SessionDatabase, SqlEngine } from "../../../envs/dbbench/engine.ts";
import { costBound, rewrite, tokenize } from "../../../envs/dbbench/mysql.ts";
import type { DbTable } from "../../../envs/dbbench/task.ts";

const pets: DbTable = {
  name: "pets",
  columns: [
    { name: "Name", type: "TEXT" },
    { name: "Age", type: "INTEGER" },
  ],
  rows: [
    ["Alma", 3],
    ["Boris", 10],
    ["O'Neil", 7],
  ],
};

let engine: SqlEngine;
let database: SessionDatabase;
beforeAll(async () => {
  engine = await SqlEngine.start();
});
afterAll(() => engine.close());

function fresh<T>(use: (database: SessionDatabase) => T, tables: DbTable[] = [pets]): T {
  database = engine.open(tables);
  try {
    return use(database);
  } finally {
    database.release();
  }
}

// Expected results: MySQL 8's manual for the same statement.
describe("MySQL on SQLite", () => {
  test.each([
    ["SELECT `Age` FROM `pets` WHERE `Name` = 'alma'", "[(3,)]"],
    ['SELECT Age FROM pets WHERE Name = "Alma";', "[(3,)]"],
    ["SELECT Age FROM pets WHERE Name = 'O\\'Neil'", "[(7,)]"],
    ["SELECT Age FROM pets WHERE Name = 'O''Neil'", "[(7,)]"],
    ['SELECT "a""b", \'x\\ty\'', "[('a\"b', 'x\\ty')]"],
    ["SELECT Name FROM pets ORDER BY Age LIMIT 1, 1", '[("O\'Neil",)]'],
    ["SELECT MAX(Age), MIN(Age), SUM(Age), COUNT(*) FROM pets", "[(10, 3, 20, 3)]"],
    ["SELECT AVG(Age) FROM pets WHERE Age < 10", "[(5.0,)]"],
    ["SELECT 5 / 2, 5 DIV 2, 7 % 4", "[(2.5, 2, 3)]"],
    ["SELECT 1 || 0, 1 && 0, NULL <=> NULL", "[(1, 0, 1)]"],
    ["SELECT CONCAT('a', 1, 'b'), CONCAT('a', NULL)", "[('a1b', None)]"],
    ["SELECT LEFT('abc', 2), RIGHT('abc', 2), CHAR_LENGTH('ab')", "[('ab', 'bc', 2)]"],
    ["SELECT SUBSTRING_INDEX('a.b.c', '.', 2), SUBSTRING_INDEX('a.b.c', '.', -1)", "[('a.b', 'c')]"],
    ["SELECT GREATEST(1, 3, 2), LEAST(1, 3, 2), IF(1 > 2, 'y', 'n')", "[(3, 1, 'n')]"],
    ["SELECT Name FROM pets WHERE Name REGEXP '^b'", "[('Boris',)]"],
    ["SELECT Name FROM pets WHERE Name RLIKE 'S$' # comment", "[('Boris',)]"],
    ["SELECT GROUP_CONCAT(Name SEPARATOR '; ') FROM pets", '[("Alma; Boris; O\'Neil",)]'],
    ["SELECT CAST('12' AS SIGNED) + 1, CAST(3 AS CHAR)", "[(13, '3')]"],
    ["SHOW TABLES", "[('pets',)]"],
    ["DESCRIBE pets", "[('Name', 'text'), ('Age', 'integer')]"],
    ["SHOW COLUMNS FROM `pets`", "[('Name', 'text'), ('Age', 'integer')]"],
    ["INSERT INTO pets VALUES ('x', 1)", "[]"],
    ["INSERT IGNORE INTO pets (Name) VALUES ('x')", "[]"],
    ["TRUNCATE TABLE pets", "[]"],
    ["BEGIN", "[]"],
    ["WITH a AS (SELECT Age FROM pets) SELECT COUNT(*) FROM a, a AS b", "[(9,)]"],
  ])("%s", (sql, expected) => expect(fresh((db) => db.execute(sql).text)).toBe(expected));

  test("names that begin with a digit need no quotes", () => {
    const table = { ...pets, name: "1952_Grand_Prix_0" };
    expect(fresh((db) => db.execute("SELECT COUNT(*) FROM 1952_Grand_Prix_0 WHERE Age > 1e0").text, [table])).toBe(
      "[(3,)]",
    );
  });

  test("odd table and column names", () => {
    const table: DbTable = {
      name: 'a `b` "c"',
      columns: [
        { name: "", type: "TEXT" },
        { name: "x\ny", type: "TEXT" },
      ],
      rows: [["1", "2"]],
    };
    expect(fresh((db) => db.execute('SELECT `x\ny` FROM `a ``b`` "c"`').text, [table])).toBe("[('2',)]");
    expect(fresh((db) => db.md5(), [table])).toHaveLength(32);
  });

  test.each([
    ["SELECT * FORM pets", /syntax error/],
    ["SELECT nope FROM pets", /no such column: nope/],
    ["SELECT * FROM dogs", /no such table: dogs/],
    ["", /empty/],
    [";", /empty/],
    ["SELECT 'abc", /unterminated string/],
    ["SELECT 1; DROP TABLE pets", /one statement/],
    ["PRAGMA table_info(pets)", /not supported/],
    ["ATTACH 'x' AS y", /not supported/],
    ["VACUUM", /not supported/],
    ["CREATE VIEW v AS SELECT 1", /not supported/],
    ["CREATE TEMPORARY TRIGGER t AFTER INSERT ON pets BEGIN SELECT 1; END", /one statement|not supported/],
    ["ROLLBACK", /not supported/],
    ["WITH RECURSIVE n(i) AS (SELECT 1 UNION SELECT i+1 FROM n) SELECT MAX(i) FROM n", /not supported/],
    ["SELECT zeroblob(1000000000)", /not supported/],
    ["SELECT Name FROM pets WHERE Name REGEXP '(a+)+$'", /not supported/],
    ["SELECT Name FROM pets WHERE Name REGEXP '('", /Error: /],
    [`SELECT ${"1,".repeat(20_000)}1`, /longer than/],
  ])("an error is a text: %s", (sql, pattern) => {
    const result = fresh((db) => db.execute(sql));
    expect(result.ok).toBe(false);
    expect(result.text).toMatch(/^Error: /);
    expect(result.text).toMatch(pattern);
  });

  test("joins that would run for minutes are refused, ordinary ones are not", () => {
    const rows = Array.from({ length: 100 }, (_, i) => [`n${i}`, i]);
    const big = { ...pets, rows };
    fresh(
      (db) => {
        expect(db.execute("SELECT COUNT(*) FROM pets a, pets b").text).toBe("[(10000,)]");
        expect(db.execute("SELECT COUNT(*) FROM pets a, pets b, pets c, pets d").text).toMatch(/too many rows/);
        expect(db.execute("WITH t(x) AS (SELECT 1 FROM pets, pets b) SELECT COUNT(*) FROM t, t AS u").text).toMatch(
          /too many rows/,
        );
        expect(db.execute("INSERT INTO pets SELECT a.* FROM pets a, pets b").text).toMatch(/too many rows/);
        expect(db.execute("SELECT pets.Age, pets.Name FROM pets WHERE pets.Age = 5 AND pets.Name = 'n5'").text).toBe(
          "[(5, 'n5')]",
        );
      },
      [big],
    );
  });

  test("the cost bound multiplies mentions and counts a common table by its body", () => {
    const bound = (sql: string) => costBound(tokenize(sql) as never, (table) => ({ a: 10, b: 7 })[table]);
    expect(bound("SELECT * FROM a JOIN b ON a.x = b.y")).toBe(70);
    expect(bound("SELECT * FROM a WHERE x IN (SELECT x FROM a)")).toBe(100);
    expect(bound("WITH c AS (SELECT * FROM a, b), d AS NOT MATERIALIZED (SELECT * FROM c) SELECT * FROM c, d")).toBe(
      4900,
    );
  });

  test("a failed statement changes nothing; an unwritable table has no MD5", () => {
    fresh((db) => {
      const before = db.md5();
      expect(db.execute("INSERT INTO pets VALUES ('x', 1), ('y')").ok).toBe(false);
      expect(db.md5()).toBe(before);
      db.execute("ALTER TABLE pets DROP COLUMN Age");
      expect(db.md5()).toBeUndefined();
      db.execute("DROP TABLE pets");
      expect(db.md5()).toBeUndefined();
    });
  });

  test("a database comes back empty: nothing of one session reaches the next", () => {
    fresh((db) => {
      for (const sql of [
        "CREATE TABLE sqliteX (a)",
        "CREATE TABLE other AS SELECT 1",
        "CREATE TEMPORARY TABLE pets2 (a)",
        "CREATE INDEX i ON pets(Age)",
      ]) {
        expect(db.execute(sql)).toEqual({ ok: true, text: "[]" });
      }
    });
    fresh((db) => {
      expect(db.execute("SHOW TABLES").text).toBe("[('pets',)]");
      expect(db.execute("SELECT * FROM sqlite_temp_master").text).toBe("[]");
    });
    database.release();
  });
});

describe("any text", () => {
  const piece = fc.constantFrom(
    "SELECT",
    "*",
    "FROM",
    "pets",
    "`",
    "'",
    '"',
    "\\",
    ";",
    "--",
    "/*",
    "*/",
    "#",
    "(",
    ")",
    "WITH",
    "AS",
    "1",
    "2x",
    ",",
    "WHERE",
    "Age",
    "DROP TABLE",
    "=",
    "\n",
    "é",
    "||",
  );
  const text = fc.oneof(
    fc.string({ unit: "binary" }),
    fc.array(piece).map((parts) => parts.join(" ")),
    fc.array(piece).map((parts) => parts.join("")),
  );

  test("never throws, and always gives a text", () => {
    fc.assert(
      fc.property(text, (sql) => {
        expect(typeof fresh((db) => db.execute(sql).text)).toBe("string");
      }),
      { numRuns: 400 },
    );
  });

  test("a string literal means itself after rewriting", () => {
    fc.assert(
      fc.property(
        fc.string({ unit: "grapheme" }).filter((value) => !value.includes("\0")),
        fc.constantFrom("'", '"'),
        (value, quote) => {
          const written = value.replaceAll("\\", "\\\\").replaceAll(quote, quote + quote);
          const [token] = tokenize(`${quote}${written}${quote}`) as { word: string }[];
          // MySQL keeps the backslash of \% and \_ ; here every backslash was doubled, so none is left.
          expect(token!.word).toBe(value);
          expect(rewrite(`SELECT ${quote}${written}${quote}`)).toMatchObject({
            sql: `SELECT '${value.replaceAll("'", "''")}'`,
          });
        },
      ),
    );
  });
});
