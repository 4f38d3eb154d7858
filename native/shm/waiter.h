// Waits that block, off the event loop: one thread of its own per kind of wait of a handle. Not libuv's pool: four waits
// for a trajectory would stop every file and name look-up of the process.
#pragma once
#include <napi.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace agentrl::shm {

class Waiter {
 public:
  // `cancel` makes a running wait return soon; called from the event loop's thread.
  Waiter(Napi::Env env, const char* name, std::function<void()> cancel);
  ~Waiter();
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

  // Runs `wait` on the thread; the promise gives its result as a number. One at a time: throws while one is running.
  Napi::Value Run(Napi::Env env, std::function<int()> wait);
  // Cancels and ends the thread. A promise that is still open gives `result`.
  void Stop(Napi::Env env, int result);

 private:
  struct Job;
  static void Settle(Napi::Env env, Napi::Function, std::nullptr_t*, std::shared_ptr<Job>* job);
  using Channel = Napi::TypedThreadSafeFunction<std::nullptr_t, std::shared_ptr<Job>, Settle>;
  static void AtExit(void* self);
  void Loop();
  void End();

  napi_env env_;
  std::function<void()> cancel_;
  Channel channel_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<Job> job_;    // open: its promise is not settled. Event loop's thread only.
  std::shared_ptr<Job> queued_; // handed to the thread; under mutex_
  bool ended_ = false;          // under mutex_
  std::thread thread_;          // started by the first wait
};

}  // namespace agentrl::shm
