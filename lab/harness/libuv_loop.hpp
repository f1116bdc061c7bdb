// SPDX-License-Identifier: Apache-2.0
// The loops of libuv's contenders: one by itself, and one that other threads can notify and stop.
#pragma once

#include <uv.h>

#include <functional>
#include <system_error>
#include <utility>

namespace lab {

/// A loop that closes its handles at its end. Lifetime: they must outlive it.
class owned_libuv_loop {
 public:
  owned_libuv_loop() { check(uv_loop_init(&loop_)); }
  owned_libuv_loop(const owned_libuv_loop&) = delete;
  owned_libuv_loop& operator=(const owned_libuv_loop&) = delete;
  ~owned_libuv_loop() {
    uv_walk(&loop_, [](uv_handle_t* handle, void*) { uv_close(handle, nullptr); }, nullptr);
    uv_run(&loop_, UV_RUN_DEFAULT);
    uv_loop_close(&loop_);
  }

  uv_loop_t* get() { return &loop_; }
  void run() { uv_run(&loop_, UV_RUN_DEFAULT); }

  /// Throws std::system_error for a status below 0.
  static void check(int status) {
    if (status < 0) throw std::system_error(-status, std::generic_category(), "libuv");
  }

 private:
  uv_loop_t loop_{};
};

/// Calls `on_notify` on the loop's thread after notify(); one call may serve several notifications.
/// Thread-safety: one thread makes and destroys the object, while no other thread runs the loop.
class libuv_loop {
 public:
  explicit libuv_loop(std::function<void()> on_notify) : on_notify_(std::move(on_notify)) {
    owned_libuv_loop::check(uv_async_init(loop_.get(), &notified_, [](uv_async_t* handle) {
      static_cast<libuv_loop*>(handle->data)->on_notify_();
    }));
    owned_libuv_loop::check(
        uv_async_init(loop_.get(), &stopped_, [](uv_async_t* handle) { uv_stop(handle->loop); }));
    notified_.data = this;
  }

  /// Runs until stop().
  void run() { loop_.run(); }

  /// Thread-safety: any thread.
  void stop() { uv_async_send(&stopped_); }

  /// Thread-safety: any thread. Complexity: no system call while an earlier notification is
  /// pending.
  void notify() { uv_async_send(&notified_); }

 private:
  std::function<void()> on_notify_;
  uv_async_t notified_;
  uv_async_t stopped_;
  owned_libuv_loop loop_;
};

}  // namespace lab
