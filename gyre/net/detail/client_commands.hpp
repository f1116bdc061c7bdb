// SPDX-License-Identifier: Apache-2.0
// client_commands: the calls of other threads that wait for a client's loop.
#pragma once

#include <gyre/base/move_only_function.hpp>

#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

namespace gyre::net::detail {

/// A queue of sends, connects and disconnects, first in, first out over all threads. Connects and
/// disconnects in a row are merged, as only the last one matters: so there is at most one more of
/// them than of sends, which have a quota. `Core` executes the commands.
template <class Core>
class client_commands {
 public:
  using function = move_only_function<void(Core&)>;

  /// One call, or several that were merged.
  class command {
   public:
    void operator()(Core& core) {
      if (disconnects_) core.disconnect();
      if (function_) function_(core);
    }

   private:
    friend class client_commands;
    function function_;
    bool is_connect_ = false;
    bool disconnects_ = false;  // before `function_`
  };

  /// Each adds a command, and calls `post`, which must make the loop call take(), if the queue was
  /// empty. Throws the exceptions of `post`, and then adds nothing. Any thread.
  template <class Post>
  void send(function sending, Post&& post) {
    const std::scoped_lock lock(mutex_);
    add(post).function_ = std::move(sending);
  }
  template <class Post>
  void connect(function connecting, Post&& post) {
    const std::scoped_lock lock(mutex_);
    last_connect(post).function_ = std::move(connecting);
  }
  template <class Post>
  void disconnect(Post&& post) {
    const std::scoped_lock lock(mutex_);
    command& merged = last_connect(post);
    merged.disconnects_ = true;
    merged.function_ = nullptr;
  }

  /// The next command. None: the queue is empty, and the next call posts again. The loop's thread.
  std::optional<command> take() {
    const std::scoped_lock lock(mutex_);
    if (waiting_.empty()) {
      posted_ = false;
      return std::nullopt;
    }
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
  template <class Post>
  command& last_connect(Post&& post) {
    if (!waiting_.empty() && waiting_.back().is_connect_) return waiting_.back();
    command& added = add(post);
    added.is_connect_ = true;
    return added;
  }
  // Posted under the lock: a call that finds the queue posted may count on it.
  template <class Post>
  command& add(Post&& post) {
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
