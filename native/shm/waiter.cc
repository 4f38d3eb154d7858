#include "waiter.h"

#include <utility>

namespace agentrl::shm {

struct Waiter::Job {
  napi_deferred deferred;
  std::function<int()> wait;
  Waiter* waiter;  // null once the promise is settled
  int result;

  // Plain Node-API: in an environment that is being terminated these calls fail, and must not throw about it.
  void Resolve(napi_env env) const {
    napi_value value;
    if (napi_create_int32(env, result, &value) == napi_ok) napi_resolve_deferred(env, deferred, value);
  }
};

Waiter::Waiter(Napi::Env env, const char* name, std::function<void()> cancel)
    : env_(env), cancel_(std::move(cancel)), channel_(Channel::New(env, name, 0, 1)) {
  // An idle waiter must not keep the process alive.
  channel_.Unref(env);
  // After the channel's own hook, so that it runs before it: the thread has ended when the channel goes.
  napi_add_env_cleanup_hook(env_, AtExit, this);
}

Waiter::~Waiter() {
  napi_remove_env_cleanup_hook(env_, AtExit, this);
  AtExit(this);
}

void Waiter::AtExit(void* self) {
  auto* waiter = static_cast<Waiter*>(self);
  if (waiter->job_ != nullptr) waiter->job_->waiter = nullptr;
  waiter->job_.reset();
  waiter->End();
}

void Waiter::End() {
  {
    std::lock_guard<std::mutex> guard(mutex_);
    if (ended_) return;
    ended_ = true;
  }
  cancel_();
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  channel_.Release();
}

Napi::Value Waiter::Run(Napi::Env env, std::function<int()> wait) {
  if (job_ != nullptr) throw Napi::Error::New(env, "a wait of this kind is already running on this handle");
  napi_deferred deferred;
  napi_value promise;
  if (napi_create_promise(env, &deferred, &promise) != napi_ok) throw Napi::Error::New(env);
  auto job = std::make_shared<Job>(Job{deferred, std::move(wait), this, 0});
  {
    std::lock_guard<std::mutex> guard(mutex_);
    if (ended_) throw Napi::Error::New(env, "this handle is closed");
    queued_ = job;
    if (!thread_.joinable()) thread_ = std::thread([this] { Loop(); });
  }
  job_ = std::move(job);
  channel_.Ref(env);
  changed_.notify_one();
  return Napi::Value(env, promise);
}

void Waiter::Loop() {
  for (;;) {
    std::shared_ptr<Job> job;
    {
      std::unique_lock<std::mutex> guard(mutex_);
      changed_.wait(guard, [this] { return ended_ || queued_ != nullptr; });
      if (ended_) return;
      job = std::move(queued_);
      queued_ = nullptr;
    }
    job->result = job->wait();
    auto* data = new std::shared_ptr<Job>(std::move(job));
    if (channel_.NonBlockingCall(data) != napi_ok) delete data;
  }
}

void Waiter::Settle(Napi::Env env, Napi::Function, std::nullptr_t*, std::shared_ptr<Job>* data) {
  const std::shared_ptr<Job> job = std::move(*data);
  delete data;
  // No environment: it is being torn down, and nobody waits for the promise.
  if (static_cast<napi_env>(env) == nullptr || job->waiter == nullptr) return;
  Waiter* waiter = std::exchange(job->waiter, nullptr);
  napi_unref_threadsafe_function(env, waiter->channel_);
  waiter->job_.reset();
  job->Resolve(env);
}

void Waiter::Stop(Napi::Env env, int result) {
  End();
  if (job_ == nullptr) return;
  const std::shared_ptr<Job> job = std::move(job_);
  job_.reset();
  job->waiter = nullptr;
  job->result = result;
  job->Resolve(env);
}

}  // namespace agentrl::shm
