// Task: a coroutine that gives a value once. The commands of the sandbox are written as Tasks, so that a script may
// wait for time, input or a slow reader in the middle of a loop.
//
// Thread rule: one thread. Ownership: whoever holds the Task owns the coroutine and what it awaits; destroying it ends
// them where they stand.
#pragma once

#include <coroutine>
#include <exception>
#include <optional>
#include <utility>

namespace ghostfleet::kubelet_api {

template <class T>
class Task {
 public:
  struct promise_type;
  using Handle = std::coroutine_handle<promise_type>;

  struct Final {
    bool await_ready() noexcept { return false; }
    std::coroutine_handle<> await_suspend(Handle h) noexcept {
      const std::coroutine_handle<> next = h.promise().awaiting;
      return next ? next : std::noop_coroutine();
    }
    void await_resume() noexcept {}
  };
  struct promise_type {
    std::coroutine_handle<> awaiting;
    std::optional<T> value;
    Task get_return_object() { return Task(Handle::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    Final final_suspend() noexcept { return {}; }
    void return_value(T v) { value = std::move(v); }
    void unhandled_exception() { std::terminate(); }
  };

  Task() = default;
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Task() {
    if (handle_) handle_.destroy();
  }

  bool await_ready() const { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> awaiting) {
    handle_.promise().awaiting = awaiting;
    return handle_;
  }
  T await_resume() { return std::move(*handle_.promise().value); }

  // For the outermost one.
  void start() { handle_.resume(); }
  bool done() const { return handle_ && handle_.done(); }
  const T& value() const { return *handle_.promise().value; }

 private:
  explicit Task(Handle handle) : handle_(handle) {}
  Handle handle_ = nullptr;
};

}  // namespace ghostfleet::kubelet_api
