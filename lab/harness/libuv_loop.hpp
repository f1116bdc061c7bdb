// SPDX-License-Identifier: Apache-2.0
// The loop of libuv's contenders, which other threads can notify and stop.
#pragma once

#include <uv.h>

#include <functional>
#include <system_error>
#include <utility>

namespace lab {

/// Calls `on_notify` on the loop's thread after notify(); one call may serve several notifications.
/// Thread-safety: one thread makes and destroys the object, while no other thread runs the loop.
class libuv_loop {
 public:
  explicit libuv_loop(std::function<void()> on_notify) : on_notify_(std::move(on_notify)) {
    check(uv_loop_init(&loop_));
    check(uv_async_init(&loop_, &notified_, [](uv_async_t* handle) {
      static_cast<libuv_loop*>(handle->data)->on_notify_();
    }));
    check(uv_async_init(&loop_, &stopped_, [](uv_async_t* handle) { uv_stop(handle->loop); }));
    notified_.data = this;
  }

  libuv_loop(const libuv_loop&) = delete;
  libuv_loop& operator=(const libuv_loop&) = delete;

  ~libuv_loop() {
    uv_close(reinterpret_cast<uv_handle_t*>(&notified_), nullptr);
    uv_close(reinterpret_cast<uv_handle_t*>(&stopped_), nullptr);
    uv_run(&loop_, UV_RUN_DEFAULT);
    uv_loop_close(&loop_);
  }

  /// Runs until stop().
  void run() { uv_run(&loop_, UV_RUN_DEFAULT); }

  /// Thread-safety: any thread.
  void stop() { uv_async_send(&stopped_); }

  /// Thread-safety: any thread. Complexity: no system call while an earlier notification is
  /// pending.
  void notify() { uv_async_send(&notified_); }

 private:
  static void check(int status) {
    if (status < 0) throw std::system_error(-status, std::generic_category(), "libuv");
  }

  std::function<void()> on_notify_;
  uv_loop_t loop_;
  uv_async_t notified_;
  uv_async_t stopped_;
};

}  // namespace lab
