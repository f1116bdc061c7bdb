// SPDX-License-Identifier: Apache-2.0
// ready_requests: carries out requests where a poller tells readiness. It makes system calls that
// do not wait: first when the request begins, then each time the descriptor is reported as ready.
// The handle keeps the readiness that is known, so that one in use costs the poller nothing.
#pragma once

#include <gyre/io/backend.hpp>
#include <gyre/io/detail/handle_table.hpp>
#include <gyre/io/request.hpp>

#include <poll.h>

#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

namespace gyre::io::detail {

/// The state of a handle between two calls.
enum class handle_flag : std::uint8_t {
  may_read = 1,   // nothing has said that a read would wait
  may_write = 2,  // nor a write
  // A short read is no sign that the descriptor is empty: the end is near, or there is urgent data.
  short_reads_mislead = 4,
  queued = 8,              // its requests are tried in the next turn
  awaits_memory = 16,      // all receive memory was on loan
  kernel_receives = 32,    // reads are served by take_early()
  trusts_short_read = 64,  // a short read is why `may_read` is missing
  always_ready = 128,      // a device that nothing waits for, such as /dev/zero
};

/// Notes events of poll(2).
inline void note_events(handle& ready, std::uint32_t events) noexcept {
  const std::uint32_t ended = POLLERR | POLLHUP;
  const std::uint32_t exceptional = POLLRDHUP | POLLPRI | ended;
  if (events & exceptional) ready.flags.insert(handle_flag::short_reads_mislead);
  if (events & (POLLIN | exceptional)) ready.flags.insert(handle_flag::may_read);
  if (events & (POLLOUT | ended)) ready.flags.insert(handle_flag::may_write);
}

/// The requests of epoll and of io_uring, which have the kernel watch the handles.
class ready_requests : public backend {
 public:
  ready_requests() noexcept;

  void attach(handle& added) final;
  void detach(handle& removed) noexcept final;
  std::optional<result> start(request& request) noexcept final;
  result attempt(request& request) noexcept final;
  void charge(std::size_t bytes) noexcept final { spend(result::of(bytes)); }
  std::optional<result> cancel(request& request) noexcept final;
  bool has_arrivals(const handle& target) noexcept final;
  receive_memory& memory() noexcept final { return memory_; }

  // The poller's.
  std::size_t attached() const noexcept { return handles_.count(); }
  const handle_table& handles() const noexcept { return handles_; }
  /// Serves the requests of a handle that was reported as ready. `events`: poll(2)'s.
  void serve(handle& ready, std::uint32_t events, std::size_t& completed);
  /// How many handles have something to do that is not reported.
  std::size_t pending() const noexcept { return again_.size() + (serving_.size() - served_); }
  /// Has `serve_reported()` serve reports, and serves the pending handles, each once, until
  /// `over()` says that the rest must wait. They take turns, also when both are more than fits into
  /// one call. Returns whether all were served, as `serve_reported()` does.
  template <class Over, class ServeReported>
  bool serve_all(std::size_t& completed, Over over, ServeReported serve_reported) {
    if (!pending_first_) begin_pending();
    if (pending_first_ && !serve_pending(completed, over)) return false;
    pending_first_ = false;
    if (!serve_reported()) return false;
    pending_first_ = true;
    if (!serve_pending(completed, over)) return false;
    pending_first_ = false;
    return true;
  }

 protected:
  ~ready_requests() = default;
  /// Throws std::system_error (EPERM) for files and block devices, which are always ready although
  /// their reads and writes wait for a disk.
  static void refuse_file(int fd);
  /// Begins to watch a handle, whose index is set. Throws.
  virtual void add(handle& watched) = 0;
  /// Ends that; nothing refers to the handle any more.
  virtual void remove(handle& watched) noexcept = 0;
  /// A request has to wait until its handle is reported as ready. Returns an error of errno's with
  /// which it ends instead, or 0.
  virtual int wait_for(handle& waiting, direction way) noexcept = 0;
  /// Carries out a request that reads, for a handle with handle_flag::kernel_receives; EAGAIN when
  /// nothing came.
  virtual result take_early(request& reader) noexcept = 0;
  /// Whether take_early() may have something for the handle, now or once the reports were served.
  virtual bool may_have_early(const handle& target) const noexcept = 0;
  /// The count of bytes of the last call that received; once, then 0.
  std::size_t take_last_receive() noexcept { return std::exchange(last_receive_, 0); }
  /// Hands received bytes to a request that receives.
  void lend_to(request& receiver, received bytes) noexcept { data_of(receiver) = std::move(bytes); }
  /// Completes a request with a result that came by another way than a call.
  void hand_over(request& request, result outcome, std::size_t& completed);
  /// Has the handle's requests tried in the loop's next turn.
  void serve_later(handle& ready) noexcept;

 private:
  // A handle's share of a turn, so that a fast peer does not keep the loop from the others.
  static constexpr unsigned most_at_once = 64;
  static constexpr int most_receives = 4;
  static constexpr int most_accepts = 64;
  static constexpr int most_rounds = 4;  // of a request for a whole buffer
  // Also of one call.
  static constexpr std::size_t most_bytes = std::size_t{1} << 20;

  // Chooses the pending handles to serve next: all, unless some of the last ones are left.
  void begin_pending() noexcept;
  template <class Over>
  bool serve_pending(std::size_t& completed, Over over) {
    while (served_ < serving_.size()) {
      serve_one_pending(completed);
      if (served_ < serving_.size() && over()) return false;
    }
    return true;
  }
  void serve_one_pending(std::size_t& completed);
  void serve_requests(handle& ready, std::size_t& completed);
  void serve_reader(handle& ready, std::size_t& completed);
  void serve_writer(handle& ready, std::size_t& completed);
  void report(request& request, result outcome, std::size_t& completed);
  received& data_of(request& receiver) noexcept {
    return receiver.kind() == request_kind::receive ? static_cast<receive_request&>(receiver).data
                                                    : memory_.arrived();
  }
  int wait_unless_ready(handle& waiting, direction way) noexcept;
  void await_readiness(request& waiting, std::size_t& completed);
  void retry_starved() noexcept;

  result perform(request& request) noexcept;
  result receive(request& request) noexcept;
  template <class Request>
  result transfer(Request& request, handle_flag readiness) noexcept;
  // Keep in the handle what a call tells about the next one, and return the call's outcome.
  static result note(handle& target, handle_flag readiness, result outcome,
                     bool exhausted = false) noexcept;
  result note_read(handle& target, result outcome, std::size_t wanted) noexcept;
  result note_write(handle& target, result outcome, std::size_t wanted) noexcept;
  void begin_share() noexcept {
    at_once_ = most_at_once;
    bytes_left_ = most_bytes;
  }
  void spend(result outcome) noexcept {
    if (outcome) bytes_left_ -= std::min(outcome.count(), bytes_left_);
  }

  // Requests that may still be done at once before the loop gets its turn, and the bytes that they
  // and those that the loop serves may still move.
  unsigned at_once_ = most_at_once;
  std::size_t bytes_left_ = most_bytes;
  std::size_t last_receive_ = 0;
  handle* current_ = nullptr;  // being served; null once it was detached
  handle_table handles_;
  // The pending handles, and those of them whose turn it is, from `served_` on; null: was detached.
  // Both have room for all handles, and for the `vacated_` entries of again_.
  std::vector<handle*> again_;
  std::size_t vacated_ = 0;
  std::vector<handle*> serving_;
  std::size_t served_ = 0;
  bool pending_first_ = false;  // the time was over before pending handles had their turn
  receive_memory memory_;
};

}  // namespace gyre::io::detail
