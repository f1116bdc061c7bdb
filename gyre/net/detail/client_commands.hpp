// SPDX-License-Identifier: Apache-2.0
// client_commands: the calls of other threads that wait for the loop of a tcp_client.
#pragma once

#include <gyre/base/move_only_function.hpp>

#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

namespace gyre::net::detail {

/// A queue of the calls of other threads that wait for a client's loop: sends, connects and
/// disconnects, first in, first out over all threads. Connects and disconnects in a row are merged,
/// as only the last one matters: so there is at most one more of them than of sends, which have a
/// quota. `Core` executes the commands.
template <class Core>
class client_commands {
 public:
  using function = move_only_function<void(Core&)>;

  /// One call, or several that were merged.
  struct command {
    void operator()(Core& core) {
      if (disconnects) core.disconnect();
      if (then) then(core);
    }
    function then = {};
    bool is_connect = false;
    bool disconnects = false;  // before `then`
  };

  /// Each adds a command, and calls `post`, which must make the loop call take(), if the queue was
  /// empty. Throws the exceptions of `post`, and then adds nothing. Any thread.
  void send(function sending, const auto& post) {
    const std::scoped_lock lock(mutex_);
    add(post).then = std::move(sending);
  }
  void connect(function connecting, const auto& post) {
    const std::scoped_lock lock(mutex_);
    last_connect(post).then = std::move(connecting);
  }
  void disconnect(const auto& post) {
    const std::scoped_lock lock(mutex_);
    command& merged = last_connect(post);
    merged.disconnects = true;
    merged.then = nullptr;
  }

  /// The next command. None: the queue is empty, and the next call posts again. The loop's thread.
  std::optional<command> take() {
    const std::scoped_lock lock(mutex_);
    posted_ = !waiting_.empty();
    if (!posted_) return std::nullopt;
    std::optional<command> next(std::move(waiting_.front()));
    waiting_.pop_front();
    return next;
  }
  /// Any thread.
  std::size_t size() const {
    const std::scoped_lock lock(mutex_);
    return waiting_.size();
  }

 private:
  command& last_connect(const auto& post) {
    if (!waiting_.empty() && waiting_.back().is_connect) return waiting_.back();
    command& added = add(post);
    added.is_connect = true;
    return added;
  }
  // The queue is posted under the lock, so that a call which finds it posted may rely on that.
  command& add(const auto& post) {
    command& added = waiting_.emplace_back();
    if (posted_) return added;
    try {
      post();
    } catch (...) {
      waiting_.pop_back();
      throw;
    }
    posted_ = true;
    return added;
  }

  mutable std::mutex mutex_;
  std::deque<command> waiting_;
  bool posted_ = false;
};

}  // namespace gyre::net::detail
