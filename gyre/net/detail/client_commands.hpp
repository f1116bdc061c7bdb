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

/// The calls of other threads that wait for a client's loop: sends, connects and disconnects, first
/// in, first out over all threads. Connects and disconnects in a row are merged, because only the
/// last one matters: the queue holds at most one more of them than sends, which have a quota.
/// `Core` executes the commands.
template <class Core>
class client_commands {
 public:
  using function = move_only_function<void(Core&)>;

  /// One call, or several merged calls.
  struct command {
    void operator()(Core& core) {
      if (disconnects) core.disconnect();
      if (next_function) next_function(core);
    }
    function next_function = {};
    bool is_connect = false;
    bool disconnects = false;  // whether to disconnect before `next_function`
  };

  /// send(), connect() and disconnect() add a command, and if the queue was empty call `post`,
  /// which must make the loop call take(). They throw the exceptions of `post`, and then add
  /// nothing. They may be called from any thread.
  void send(function call, const auto& post) {
    const std::scoped_lock lock(mutex_);
    add(post).next_function = std::move(call);
  }
  void connect(function call, const auto& post) {
    const std::scoped_lock lock(mutex_);
    last_connect(post).next_function = std::move(call);
  }
  void disconnect(const auto& post) {
    const std::scoped_lock lock(mutex_);
    command& target = last_connect(post);
    target.disconnects = true;
    target.next_function = nullptr;
  }

  /// Takes the next command, on the loop's thread. Returns nothing if the queue is empty; the next
  /// added command then calls `post` again.
  std::optional<command> take() {
    const std::scoped_lock lock(mutex_);
    is_posted_ = !commands_.empty();
    if (!is_posted_) return std::nullopt;
    std::optional<command> front(std::move(commands_.front()));
    commands_.pop_front();
    return front;
  }
  /// Returns the number of waiting commands. May be called from any thread.
  std::size_t size() const {
    const std::scoped_lock lock(mutex_);
    return commands_.size();
  }

 private:
  command& last_connect(const auto& post) {
    if (!commands_.empty() && commands_.back().is_connect) return commands_.back();
    command& entry = add(post);
    entry.is_connect = true;
    return entry;
  }
  // Calls `post` under the lock: another thread that finds is_posted_ set can rely on a completed
  // post.
  command& add(const auto& post) {
    command& entry = commands_.emplace_back();
    if (is_posted_) return entry;
    try {
      post();
    } catch (...) {
      commands_.pop_back();
      throw;
    }
    is_posted_ = true;
    return entry;
  }

  mutable std::mutex mutex_;
  std::deque<command> commands_;
  bool is_posted_ = false;
};

}  // namespace gyre::net::detail
