// SPDX-License-Identifier: Apache-2.0
// connection_extra, connection_backlog: members that few connections need, kept apart from them.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/clock.hpp>
#include <gyre/base/detail/slab_object.hpp>
#include <gyre/base/move_only_any.hpp>
#include <gyre/base/timer_operation.hpp>
#include <gyre/io/error.hpp>
#include <gyre/io/output_queue.hpp>
#include <gyre/net/detail/byte_quota.hpp>
#include <gyre/net/layer.hpp>
#include <gyre/net/tcp_connection.hpp>

#include <sys/types.h>

#include <algorithm>
#include <array>
#include <deque>
#include <limits>
#include <memory>

namespace gyre::net::detail {

/// Samples a count once in a quarter() of a timeout: so progress costs nothing but its counting,
/// and a standstill is noticed up to a quarter late.
class progress_timer final : public timer_operation {
 public:
  progress_timer(tcp_connection& owner, function expired) noexcept
      : timer_operation(expired), self(&owner) {}

  /// Begins anew: `count` is to change within `timeout`.
  void watch(std::chrono::nanoseconds timeout, std::uint64_t count) noexcept {
    quarter_ = timeout / quarters + std::chrono::nanoseconds{1};
    last_count_ = count;
    unchanged_ = 0;
  }
  /// From now on no longer than that.
  void shorten(std::chrono::nanoseconds timeout) noexcept {
    quarter_ = std::min(quarter_, timeout / quarters + std::chrono::nanoseconds{1});
  }
  std::chrono::nanoseconds quarter() const noexcept { return quarter_; }
  /// To be called once in a quarter: whether `count` has not changed for the whole time.
  bool stalled(std::uint64_t count) noexcept {
    unchanged_ = count == last_count_ ? unchanged_ + 1 : 0;
    last_count_ = count;
    return unchanged_ >= quarters;
  }

  tcp_connection* const self;

 private:
  static constexpr unsigned quarters = 4;

  std::chrono::nanoseconds quarter_{0};
  std::uint64_t last_count_ = 0;
  unsigned unchanged_ = 0;
};

/// Either `left` bytes of `file`, or descriptors, which go with the byte behind them.
struct output_attachment {
  unique_fd file = {};
  ::off_t offset = 0;
  std::size_t left = 0;
  std::vector<unique_fd> fds = {};
  std::size_t bytes_before = 0;  // of the queue, behind the attachment before

  std::size_t descriptors() const noexcept { return fds.size() + (file ? 1 : 0); }
};

/// The attachments of an output queue in their order, and the request by which they wait until the
/// socket is writable. Not thread-safe.
class attached_output {
 public:
  /// For each descriptor that waits, in bytes of quota: a descriptor is scarcer than memory.
  static constexpr std::size_t descriptor_cost = std::size_t{16} << 10;

  attached_output(io::handle& to, io::request::function on_room) noexcept
      : room(to, io::direction::write, on_room) {}

  /// Adds one behind the `queued` bytes of the queue. Throws std::bad_alloc.
  void add(output_attachment added, std::size_t queued) {
    added.bytes_before = queued - bytes_before_;
    items_.push_back(std::move(added));
    bytes_before_ = queued;
    descriptors_ += items_.back().descriptors();
  }
  /// Whether the first one is there, and comes before any byte of the queue.
  bool is_due() const noexcept { return !items_.empty() && items_.front().bytes_before == 0; }
  output_attachment& first() noexcept { return items_.front(); }
  void remove_first() noexcept {
    descriptors_ -= items_.front().descriptors();
    items_.pop_front();
  }
  void clear() noexcept {
    items_.clear();
    bytes_before_ = descriptors_ = 0;
  }
  /// Notes that bytes left the front of the queue, no more than next_bytes().
  void consume(std::size_t bytes) noexcept {
    if (items_.empty()) return;
    items_.front().bytes_before -= bytes;
    bytes_before_ -= bytes;
  }
  /// Bytes of the queue up to the next attachment; behind the first one, if that is due.
  std::size_t next_bytes() const noexcept {
    const std::size_t next = is_due() ? 1 : 0;
    return next < items_.size() ? items_[next].bytes_before : unlimited;
  }
  /// How many wait.
  std::size_t descriptors() const noexcept { return descriptors_; }
  /// The quota of the descriptors that wait.
  std::size_t cost() const noexcept { return descriptors_ * descriptor_cost; }

  io::readiness_request room;

 private:
  static constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

  std::deque<output_attachment> items_;
  std::size_t bytes_before_ = 0;  // of all of them
  std::size_t descriptors_ = 0;
};

/// The first `bytes` of what `pieces` name: cuts the last of them.
std::span<iovec> first_bytes(std::span<iovec> pieces, std::size_t bytes) noexcept;

/// The input of a connection that receives descriptors.
struct descriptor_input {
  descriptor_input(io::handle& from, io::request::function on_readable) noexcept
      : readable(from, io::direction::read, on_readable) {}

  io::readiness_request readable;
  std::vector<unique_fd> fds;  // received and not taken
};

/// Members of a connection once it waits: with output, with an incomplete message, for a timeout.
struct connection_backlog {
  explicit connection_backlog(tcp_connection& owner) noexcept;

  static constexpr std::size_t most_pieces = 8;

  io::output_queue output;
  std::array<iovec, most_pieces> pieces;
  io::gather_request writing;
  io::buffer rest;                            // received and not consumed
  std::size_t counted = 0;                    // bytes of both in the group's count
  std::unique_ptr<attached_output> attached;  // to `output`
  std::unique_ptr<descriptor_input> descriptors;

  // The idle timeout; once the connection is closed or sending has failed, that timeout.
  progress_timer timer;
  steady_time close_by{};          // the end of closing, at the latest
  progress_timer message_timer;    // restarted while there is a rest when it expires
  std::uint64_t consumptions = 0;  // times that on_message has consumed some of the rest
  progress_timer write_timer;      // restarted while there is output when it expires
};

static_assert(sizeof(connection_backlog) <= 512, "tcp_connection says so");

/// Members of a connection with a context, references or a backlog.
struct connection_extra : gyre::detail::slab_object {
  move_only_any context;
  connection_control* control = nullptr;
  std::error_code failure;  // of sending
  std::unique_ptr<connection_backlog> backlog;
};

static_assert(sizeof(connection_extra) <= 48, "tcp_connection says so");

/// Members of a connection with a layer. The queue of output has bytes that are not written to the
/// layer yet, because the order of their records is that of sending.
struct layered_extra : connection_extra {
  bool may_write() const noexcept { return protocol->may_write() && !protocol->why().code; }
  /// Appends to `output` what is to be sent. Throws std::bad_alloc.
  std::error_code write(std::span<const std::byte> plain, io::buffer& output) {
    protocol->send_to(output);
    if (protocol->write(plain) != layer::status::failed) return {};
    return protocol->error();
  }
  /// The error if the peer's bytes end while output waits for them.
  std::error_code cut_off() const noexcept {
    const std::error_code why = protocol->end_of_bytes();
    return why ? why : io::errc::unexpected_end;
  }

  std::unique_ptr<layer> protocol;
  io::buffer sealed;   // the layer's output, and the first to be sent; the kernel may be reading it
  io::buffer replies;  // of the layer itself, to be sent after that
};

/// State that a connection shares with its references.
struct connection_control {
  connection_control(tcp_connection& of, std::size_t output_limit) noexcept
      : loop(of.loop()), connection(&of), posted(output_limit) {}

  void add() noexcept {
    references.fetch_add(1, std::memory_order_relaxed);  // relaxed: the caller has one
  }
  void drop() noexcept {
    // acq_rel: what others did with theirs happens before the end of the last one.
    if (references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

  event_loop& loop;
  tcp_connection* connection;  // the loop's thread; null when it is freed
  byte_quota posted;           // bytes that wait in the loop's inbox
  gyre::detail::atomic<bool> close_posted{false}, abort_posted{false};
  gyre::detail::atomic<bool> alive{true};
  gyre::detail::atomic<std::uint32_t> references{1};
};

}  // namespace gyre::net::detail

inline gyre::net::detail::connection_backlog* gyre::net::tcp_connection::backlog() const noexcept {
  return extra_ == nullptr ? nullptr : extra_->backlog.get();
}
