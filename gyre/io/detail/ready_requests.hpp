// SPDX-License-Identifier: Apache-2.0
// How requests are carried out where a poller tells readiness: by system calls that do not wait, the
// call first, and again when the descriptor is reported as ready. What a descriptor is known to be ready
// for is remembered in its handle, so that the poller is not told anything while it is used.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <gyre/io/backend.hpp>
#include <gyre/io/received.hpp>

namespace gyre::io::detail {

/// What epoll_requests and uring_requests share.
class ready_requests : public backend {
 public:
  void attach(handle& served) final;
  void detach(handle& served) noexcept final;
  std::optional<result> start(request& asked) noexcept override;
  result attempt(request& asked) noexcept final;
  void charge(std::size_t bytes) noexcept final { spend(result::of(bytes)); }
  std::optional<result> cancel(request& asked) noexcept override;
  receive_memory& memory() noexcept final { return memory_; }

  // The poller's.
  std::size_t handles() const noexcept { return handles_.size() - free_.size(); }
  /// Handles with something to do that nobody will report.
  std::size_t pending() const noexcept { return again_.size() + (serving_.size() - served_); }
  /// Chooses those that are served next: all there are, unless some of the last ones are left.
  void begin_pending() noexcept;
  /// Goes on with those, each once, until `over()` says that the rest must wait. Whether that was all.
  template <class Over>
  bool serve_pending(std::size_t& completed, Over over) {
    while (served_ < serving_.size()) {
      serve_one_pending(completed);
      if (served_ < serving_.size() && over()) return false;
    }
    return true;
  }

 protected:
  // The state of a handle.
  enum : std::uint8_t {
    may_read = 1,   // nothing has said that a read would wait
    may_write = 2,  // nor a write
    // A short read is no sign that there is nothing more: the end is near, or there is urgent data.
    short_reads_lie = 4,
    queued = 8,       // in again_
    starved = 16,     // waits for receive memory
    diverted = 32,    // what is to be read comes from read_diverted()
    read_short = 64,  // that is why it may not be read
  };

  ready_requests() noexcept;
  ~ready_requests() = default;

  // What the poller's side provides.
  /// Begins to watch a handle, whose index is set. Throws.
  virtual void begin(handle& served) = 0;
  /// Ends that; nothing may refer to it any more.
  virtual void end(handle& served) noexcept = 0;
  /// A request has to wait until its handle is reported as ready.
  virtual void wait_for_readiness(handle& of, bool writing) noexcept = 0;
  /// Carries out a request that reads, of a handle that is `diverted`.
  virtual result read_diverted(request& asked) noexcept;

  /// All handles; null where there is none.
  std::span<handle* const> all() const noexcept { return handles_; }
  /// Goes on with the requests of a handle that was reported as ready. `events`: poll(2)'s.
  void serve(handle& ready, std::uint32_t events, std::size_t& completed);
  static void note_events(handle& ready, std::uint32_t events) noexcept;
  /// Completes a request with what came by another way than a call.
  void hand_over(request& asked, result made, std::size_t& completed);
  /// Has its requests tried in the loop's next turn.
  void serve_later(handle& ready) noexcept;
  /// Bytes that the last call that received brought; 0 if that was asked for before.
  std::size_t last_receive() noexcept { return std::exchange(last_receive_, 0); }

 private:
  // A handle's share of a turn, so that nobody whose peer is fast keeps the loop from the others.
  static constexpr unsigned most_at_once = 64;
  static constexpr int most_receives = 4;
  static constexpr int most_accepts = 64;
  static constexpr int most_rounds = 4;  // of a request for a whole buffer
  // Also of one call.
  static constexpr std::size_t most_bytes = std::size_t{1} << 20;

  void serve_one_pending(std::size_t& completed);
  void go_on(handle& ready, std::size_t& completed);
  void go_on_reading(handle& ready, std::size_t& completed);
  void go_on_writing(handle& ready, std::size_t& completed);
  static void report(request& asked, result made, std::size_t& completed);
  void wait_unless_ready(handle& of, bool writing) noexcept;
  void memory_returned() noexcept;

  template <class Call>
  static result call_to_read(const handle& from, Call call) noexcept;
  static result read_some(const request& asked, std::span<std::byte> to) noexcept;
  result perform(request& asked) noexcept;
  result receive(receive_request& asked) noexcept;
  result read(read_request& asked) noexcept;
  result write(write_request& asked) noexcept;
  // Keep in the handle's state what a call tells about the next one, and return what it made.
  static result note(handle& target, std::uint8_t direction, result made, bool exhausted) noexcept;
  result note_read(handle& target, result made, std::size_t wanted) noexcept;
  result note_write(handle& target, result made, std::size_t wanted) noexcept;
  void begin_share() noexcept {
    at_once_ = most_at_once;
    bytes_left_ = most_bytes;
  }
  void spend(result made) noexcept {
    if (made) bytes_left_ -= std::min(made.count(), bytes_left_);
  }

  // Requests that may still be done at once before the loop gets its turn, and the bytes that they and
  // those that the loop serves may still move.
  unsigned at_once_ = most_at_once;
  std::size_t bytes_left_ = most_bytes;
  handle* current_ = nullptr;  // being served; null once it was detached
  std::size_t last_receive_ = 0;
  std::vector<handle*> handles_;  // by their index; null: free
  std::vector<std::uint32_t> free_;
  // Those with something pending, and those of them whose turn it is, from `served_` on; null: was
  // detached. Both have room for all handles, and for the `vacated_` places in again_.
  std::vector<handle*> again_;
  std::size_t vacated_ = 0;
  std::vector<handle*> serving_;
  std::size_t served_ = 0;
  receive_memory memory_;
};

}  // namespace gyre::io::detail
