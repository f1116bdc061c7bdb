// SPDX-License-Identifier: Apache-2.0
// What other threads have told a client, and its loop has not got to yet.
#pragma once

#include <gyre/base/move_only_function.hpp>

#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

namespace gyre::net::detail {

/// A queue of sends, and of wishes to be connected or not. Of wishes that follow each other only the
/// last matters, so they take one place: there are never more of them than sends, which have a quota,
/// and one. First in, first out over all threads. `Core` is what they are told to.
template <class Core>
class client_commands {
 public:
  using function = move_only_function<void(Core&)>;

  /// One or several that were merged.
  class command {
   public:
    void operator()(Core& core) {
      if (disconnects_) core.disconnect();
      if (called_) called_(core);
    }

   private:
    friend class client_commands;
    function called_;
    bool is_wish_ = false;
    bool disconnects_ = false;  // before `called_`
  };

  /// Each calls `post`, which sees to it that the loop calls take(), if nothing was there; what that
  /// throws it throws, and has added nothing. Any thread.
  template <class Post>
  void send(function sending, Post&& post) {
    const std::scoped_lock lock(mutex_);
    add(post).called_ = std::move(sending);
  }
  template <class Post>
  void connect(function connecting, Post&& post) {
    const std::scoped_lock lock(mutex_);
    last_wish(post).called_ = std::move(connecting);
  }
  template <class Post>
  void disconnect(Post&& post) {
    const std::scoped_lock lock(mutex_);
    command& wish = last_wish(post);
    wish.disconnects_ = true;
    wish.called_ = nullptr;
  }

  /// The next one. None: there is nothing any more, and the next call posts again. The loop's thread.
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
  command& last_wish(Post&& post) {
    if (!waiting_.empty() && waiting_.back().is_wish_) return waiting_.back();
    command& added = add(post);
    added.is_wish_ = true;
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
