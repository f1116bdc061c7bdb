// SPDX-License-Identifier: Apache-2.0
// ready_requests: carries out requests where a poller reports readiness. It makes non-blocking
// system calls: first when the request begins, then each time the descriptor is reported as ready.
// The handle stores the known readiness, so that a handle in use needs no call of the poller.
#pragma once

#include <gyre/io/backend.hpp>
#include <gyre/io/detail/fair_queue.hpp>
#include <gyre/io/detail/handle_table.hpp>
#include <gyre/io/request.hpp>

#include <poll.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <utility>

namespace gyre::io::detail {

/// The state of a handle between two calls.
enum class handle_flag : std::uint8_t {
  may_read = 1,   // no call has shown that a read would wait
  may_write = 2,  // no call has shown that a write would wait
  // A short read does not mean that the descriptor is empty: the end is near, or there is urgent
  // data.
  short_reads_mislead = 4,
  queued = 8,              // the handle's requests are tried in the next turn
  awaits_memory = 16,      // all receive memory was lent when the handle needed some
  kernel_receives = 32,    // the kernel receives, and take_early() serves reads
  trusts_short_read = 64,  // `may_read` is missing because of a short read
  always_ready = 128,      // a device that is always ready, such as /dev/zero
};

/// Notes events of poll(2).
inline void note_events(handle& target, std::uint32_t events) noexcept {
  const std::uint32_t end_events = POLLERR | POLLHUP;
  const std::uint32_t exceptional_events = POLLRDHUP | POLLPRI | end_events;
  if (events & exceptional_events) target.flags.insert(handle_flag::short_reads_mislead);
  if (events & (POLLIN | exceptional_events)) target.flags.insert(handle_flag::may_read);
  if (events & (POLLOUT | end_events)) target.flags.insert(handle_flag::may_write);
}

/// The requests of epoll and of io_uring, which make the kernel watch the handles.
class ready_requests : public backend {
 public:
  ready_requests() noexcept;

  void attach(handle& target) final;
  void detach(handle& target) noexcept final;
  std::optional<result> start(request& request) noexcept final {
    return start_on(request.target(), request);
  }
  result attempt(request& request) noexcept final;
  std::size_t share_left(direction side) const noexcept final { return bytes_left(side); }
  void charge(std::size_t bytes) noexcept final {
    spend_bytes(direction::read, bytes);
    spend_bytes(direction::write, bytes);
  }
  std::optional<result> cancel(request& request) noexcept final;
  std::optional<result> start_receiving(handle& source,
                                        shared_receive_request& request) noexcept final {
    return start_on(source, request);
  }
  void stop_receiving(handle& source) noexcept final { source.reader = nullptr; }
  bool has_arrivals(const handle& target) noexcept final;
  bool end_receiving_ahead(handle& /*source*/) noexcept override { return false; }
  receive_memory& memory() noexcept final { return memory_; }

  // The poller calls the public functions below.
  std::size_t attached() const noexcept { return handles_.count(); }
  const handle_table& handles() const noexcept { return handles_; }
  /// Serves the requests of a handle that was reported as ready, or queues the handle for its turn
  /// if it has used up its share. `events`: those of poll(2).
  void serve(handle& target, std::uint32_t events, std::size_t& completions);
  /// Returns the number of handles with work that the kernel does not report.
  std::size_t pending() const noexcept { return queue_.size(); }
  /// Serves a turn: calls `serve_reported()` to serve the `reports` reports; then serves the
  /// waiting handles, new ones first, each once, until `over()` returns true or the loop must look
  /// for new handles. `serve_reported()` returns whether all reports were served; if not, the next
  /// turn continues with them. After all reports at least one old handle is served, so that new
  /// handles cannot starve the old ones.
  template <class Over, class ServeReported>
  void serve_all(std::size_t reports, std::size_t& completions, Over is_over,
                 ServeReported serve_reported) {
    queue_.begin_turn(reports);
    if (!serve_reported()) return;
    serve_new(completions, is_over);
    serve_old(completions, is_over);
  }

 protected:
  ~ready_requests() = default;
  /// Throws std::system_error (EPERM) for files and block devices: they are always ready although
  /// their reads and writes wait for a disk.
  static void require_pollable(int fd);
  /// Begins to watch a handle, whose index is set. Throws.
  virtual void add(handle& target) = 0;
  /// Stops watching a handle, to which nothing refers afterwards.
  virtual void remove(handle& target) noexcept = 0;
  /// Called when an attempt would have to wait: makes the kernel report the handle when it becomes
  /// ready, if this backend can do so without a request that waits. Returns the error number with
  /// which the attempt fails instead, or 0.
  virtual int watch(handle& target, direction side) noexcept = 0;
  /// Called when a request has to wait until its handle is reported as ready. Returns the error
  /// number with which the request ends instead, or 0.
  virtual int wait_for(handle& target, direction side) noexcept = 0;
  /// Carries out a request that reads, for a handle with handle_flag::kernel_receives; EAGAIN when
  /// nothing has arrived.
  virtual result take_early(handle& target, request& reader) noexcept = 0;
  /// Returns whether take_early() may have something for the handle, now or once the reports were
  /// served.
  virtual bool may_have_early(const handle& target) const noexcept = 0;
  /// Returns the number of bytes that the last receiving call received; later calls return 0.
  std::size_t take_last_receive() noexcept { return std::exchange(last_receive_, 0); }
  /// Lends received bytes to a request that receives.
  void lend_to(request& receiver, received bytes) noexcept { data_of(receiver) = std::move(bytes); }
  /// Completes a request with a result that did not come from a system call.
  void hand_over(handle& target, request& request, result outcome, std::size_t& completions);
  /// Queues the handle, so that its requests are tried in its turn.
  void serve_later(handle& target) noexcept;

 private:
  // The limits of one visit to a handle, in requests; fair_queue limits the bytes.
  static constexpr unsigned max_at_once = 64;
  static constexpr int max_receives = 4;
  static constexpr int max_accepts = 64;
  static constexpr int max_rounds = 4;  // the calls for one request with a whole buffer
  // The limit of each call in bytes, which holds even where attempt() ignores the share.
  static constexpr std::size_t max_bytes = fair_queue::max_share;

  template <class Over>
  void serve_new(std::size_t& completions, Over is_over) {
    for (std::size_t count = queue_.count_of_new(); count > 0; --count) {
      const bool is_visited = serve_waiting(queue_.pop_new(), queue_.share_of_new(), completions);
      if (is_visited && count > 1 && is_over()) return;
    }
  }
  template <class Over>
  void serve_old(std::size_t& completions, Over is_over) {
    for (std::size_t count = queue_.begin_round(); count > 0; --count) {
      const bool is_visited = serve_waiting(queue_.pop_old(), queue_.share(), completions);
      if (is_visited && count > 1 && (is_over() || queue_.is_turn_over())) return;
    }
  }
  std::optional<result> start_on(handle& target, request& request) noexcept;
  // Returns whether the rest of the share is enough to begin a request.
  bool has_share_for(const request& request) const noexcept;
  // Returns whether there was a visit; a null handle was detached before its turn.
  bool serve_waiting(handle* target, std::size_t share, std::size_t& completions);
  void serve_requests(handle& target, std::size_t share, std::size_t& completions);
  // `is_interrupted`: whether a function threw, so that work may remain.
  void end_visit(handle& target, bool is_interrupted) noexcept;
  void serve_reader(handle& target, std::size_t& completions);
  void serve_writer(handle& target, std::size_t& completions);
  void report(handle& target, request& request, result outcome, std::size_t& completions);
  received& data_of(request& receiver) noexcept {
    return receiver.kind() == request_kind::receive ? static_cast<receive_request&>(receiver).data
                                                    : memory_.arrived();
  }
  static std::size_t max_size_of(const request& receiver) noexcept {
    return receiver.kind() == request_kind::receive_shared
               ? static_cast<const shared_receive_request&>(receiver).max_size()
               : std::numeric_limits<std::size_t>::max();
  }
  int wait_unless_ready(handle& target, direction side) noexcept;
  void await_readiness(handle& target, request& request, std::size_t& completions);
  void retry_starved() noexcept;

  result perform(handle& target, request& request) noexcept;
  result receive(handle& source, request& request) noexcept;
  result send_file(handle& sink, send_file_request& request) noexcept;
  template <class Request>
  result transfer(Request& request, handle_flag readiness) noexcept;
  // Stores in the handle what a call implies for the next call, and returns the call's outcome.
  static result note_outcome(handle& target, handle_flag readiness, result outcome,
                             bool is_exhausted = false) noexcept;
  result note_read(handle& target, result outcome, std::size_t size) noexcept;
  result note_write(handle& target, result outcome, std::size_t size) noexcept;
  // Begins a visit, in which `bytes` may be moved in each direction.
  void begin_share(std::size_t bytes) noexcept {
    at_once_ = max_at_once;
    request_count_ = 0;
    share_ = bytes;
    share_left_ = {bytes, bytes};
  }
  std::size_t& bytes_left(direction side) noexcept {
    return share_left_[side == direction::write ? 1 : 0];
  }
  std::size_t bytes_left(direction side) const noexcept {
    return share_left_[side == direction::write ? 1 : 0];
  }
  void spend_bytes(direction side, std::size_t bytes) noexcept {
    bytes_left(side) -= std::min(bytes, bytes_left(side));
  }
  // Counts bytes that were written, even above the share: cost_of_visit() contains all of them.
  void spend_beyond_share(std::size_t bytes) noexcept {
    std::size_t& left = bytes_left(direction::write);
    if (bytes > left) share_ += bytes - std::exchange(left, bytes);
    left -= bytes;
  }
  std::size_t cost_of_visit() const noexcept {
    return share_ - std::min(share_left_[0], share_left_[1]) +
           request_count_ * fair_queue::cost_of_request;
  }

  // The budget of this visit: requests that may still complete at once, and bytes that they and the
  // requests served by the loop may still read and write. Requests started before the next visit
  // use the remainder.
  unsigned at_once_ = max_at_once;
  std::size_t share_ = fair_queue::max_share;
  std::array<std::size_t, 2> share_left_ = {fair_queue::max_share, fair_queue::max_share};
  std::size_t request_count_ = 0;
  std::size_t last_receive_ = 0;
  handle* visited_handle_ = nullptr;  // the visited handle; null once it was detached
  bool wants_more_ = false;           // whether the visited handle needs another visit
  handle_table handles_;
  fair_queue queue_;
  receive_memory memory_;
};

}  // namespace gyre::io::detail
