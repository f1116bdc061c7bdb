// SPDX-License-Identifier: Apache-2.0
// uring_requests: the requests of a loop on io_uring. They wait for subscriptions: services of the
// kernel for a handle that last until they are cancelled (multishot requests), such as receiving
// all data into buffers of the loop. Without a suitable subscription, system calls carry out a
// request, as in ready_requests.
//
// Subscriptions and early data, which the kernel delivered before a request needed it, are one
// class: each completion changes both, the order of calls and early data depends on which
// subscriptions are armed, and closing a handle ends both. Both are stored in the twelve bytes of a
// registration, one for each idle connection.
//
// A subscription refers to an entry of a table, never to a request or its memory. So cancelling a
// request only removes it, and only closing a descriptor has to wait for the kernel. Changes are
// noted for each handle, and submitted with the loop's next wait.
#pragma once

#include <gyre/base/detail/flag_set.hpp>
#include <gyre/base/unique_fd.hpp>
#include <gyre/io/detail/buffer_ring.hpp>
#include <gyre/io/detail/ready_requests.hpp>
#include <gyre/io/detail/uring.hpp>

#include <array>
#include <optional>

namespace gyre::io::detail {

/// A service of the kernel for a handle. Each is in one of these states; in brackets: the sets of
/// the handle's registration that hold it. Submit: the loop submits all changes.
///
///                                   | subscribe | unsubscribe | submit     | last completion
///                                   |           |             |            | seen (3) | taken
///     idle       []                 | requested | -           | -          | -        | -
///     requested  [wanted]           | -         | idle        | armed (1)  | -        | -
///     armed      [wanted, armed]    | -         | unwanted    | - (1)      | ended    | idle
///     unwanted   [armed]            | armed     | -           | cancelling | ended    | idle
///     cancelling [armed, cancelled] | - (2)     | -           | -          | ended    | idle
///     ended      [armed, ended]     | - (2)     | -           | -          | -        | idle
///
/// (1) A subscription that no request waits for any more is unsubscribed first.
/// (2) `wanted` is noted, and dropped with the last completion; then the request is tried
///     again, and subscribes again.
/// (3) When a handle is closed, all ready completions are examined without being taken.
enum class subscription : std::uint8_t {
  readable = 1,  // the kernel reports when the descriptor becomes readable
  writable = 2,
  receive = 4,  // the kernel receives all data
  accept = 8    // the kernel accepts all connections
};

using subscription_set = gyre::detail::flag_set<subscription>;

inline constexpr std::array all_subscriptions = {subscription::readable, subscription::writable,
                                                 subscription::receive, subscription::accept};

/// The `user_data` of a subscription's completions. From its lowest bit: a tag, the subscription,
/// the handle's generation, its index.
struct subscription_id {
  static constexpr std::uint8_t tag = 1;
  static constexpr std::uint32_t generation_mask = 0xffff;

  subscription which;
  std::uint32_t generation;
  std::uint32_t index;

  constexpr explicit operator std::uint64_t() const noexcept {
    return tag | std::uint64_t{std::to_underlying(which)} << 8 | std::uint64_t{generation} << 16 |
           std::uint64_t{index} << 32;
  }
};

inline std::uint8_t tag_of(const io_uring_cqe& completion) noexcept {
  return static_cast<std::uint8_t>(completion.user_data);
}
inline subscription_id id_of(const io_uring_cqe& completion) noexcept {
  return {static_cast<subscription>(completion.user_data >> 8 & 0xff),
          static_cast<std::uint32_t>(completion.user_data >> 16) & subscription_id::generation_mask,
          static_cast<std::uint32_t>(completion.user_data >> 32)};
}
inline subscription subscription_of(const io_uring_cqe& completion) noexcept {
  return id_of(completion).which;
}
inline bool is_last(const io_uring_cqe& completion) noexcept {
  return (completion.flags & IORING_CQE_F_MORE) == 0;
}

/// The part of the poller that its requests use.
class ring_owner {
 public:
  /// Closes the ring, which ends all subscriptions.
  virtual void abandon_ring() noexcept = 0;
  virtual file_service* file_calls() noexcept = 0;

 protected:
  ~ring_owner() = default;
};

class uring_requests final : public ready_requests {
 public:
  /// Throws std::bad_alloc.
  uring_requests(ring_owner& owner, uring& ring, const uring_features& features);

  // A callback that threw may have left bytes in a buffer of the ring.
  ~uring_requests() { memory().arrived().reset(); }

  file_service* files() noexcept override { return owner_.file_calls(); }

  // The poller calls these functions when the ring is opened, submitted to and closed.
  /// Provides the buffers that the kernel receives into. Called after the ring was opened.
  void provide_buffers() noexcept;
  /// Writes all changes into the ring. Returns false if there was no room for all of them.
  bool submit_changes() noexcept;
  /// Cancels all subscriptions. Returns false if there are none.
  bool cancel_all() noexcept;
  /// Drops all subscriptions, which have ended with their ring, and tries all requests under way
  /// again. Keeps early data.
  void restart() noexcept;
  void discard_early_data() noexcept;

  // The poller calls these functions for completions.
  void serve_completion(const io_uring_cqe& completion, std::size_t& completions);
  /// Stores what a completion reports, and keeps its bytes or connection as early data. Completes
  /// no request.
  void record(const io_uring_cqe& completion) noexcept;
  /// Returns whether retry_short_reads() has nothing to do.
  bool all_reads_confirmed() noexcept { return unchecked_handles_ == 0 && !has_unconfirmed(); }
  /// Tries requests again that wait only because a short read suggested that nothing was left.
  void retry_short_reads() noexcept;
  /// Called when a signal has interrupted the loop's wait. TCP does not pass urgent data while a
  /// signal is pending: a receive then ends without a completion although bytes follow, and is
  /// tried again only when more arrive. retry_short_reads() looks for such receives, at some
  /// handles in each call, so that signals cost a loop with many connections little.
  void note_interruption() noexcept { unchecked_handles_ = registrations_.size(); }
  bool end_receiving_ahead(handle& source) noexcept override;
  /// Returns the number of completions that were examined before they were taken, to close handles.
  std::uint64_t examined_completions() const noexcept { return examined_completions_; }

 private:
  // The size in bytes of a message after which calls receive instead of the ring; the size of a
  // small message; and the number of small messages in a row after which the ring receives again.
  static constexpr std::size_t large_message = buffer_ring::bytes_each;
  static constexpr std::size_t small_message = buffer_ring::bytes_each / 2;
  static constexpr std::uint8_t min_small_messages = 16;
  // The number of handles that each retry checks after an interruption.
  static constexpr std::size_t checked_at_once = 64;

  // The subscriptions of a handle, and its early data: what the kernel received or accepted before
  // a request needed it, in the order of arrival.
  struct registration {
    std::uint16_t generation = 0;
    buffer_ring::queue early_bytes;
    std::uint8_t early_error = 0;            // errno's number of a failure after the early bytes
    bool has_early_connections : 1 = false;  // whether connections_ has any for the handle
    bool prefers_calls : 1 = false;          // whether calls receive instead of the ring
    std::uint8_t small_messages : 5 = 0;     // the number of small messages in a row
    subscription_set wanted_kinds;
    subscription_set armed_kinds;  // the subscriptions that the kernel has
    subscription_set cancelled_kinds;
    subscription_set ended_kinds;  // the subscriptions whose last completion is ready
    // Whether the index is in changed_handles_ or unconfirmed_handles_. An index in
    // unconfirmed_handles_ may be out of date: `is_unconfirmed` decides.
    bool is_in_changed : 1 = false;
    bool is_in_unconfirmed : 1 = false;
    bool is_unconfirmed : 1 = false;

    bool has_early_data() const noexcept {
      return !early_bytes.empty() || early_error != 0 || has_early_connections;
    }
    void end(subscription kind) noexcept {
      for (subscription_set* const set :
           {&wanted_kinds, &armed_kinds, &cancelled_kinds, &ended_kinds})
        set->erase(kind);
    }
    bool has_live() const noexcept { return !(armed_kinds - ended_kinds).empty(); }
  };
  static_assert(sizeof(registration) <= 12, "each idle connection has one");

  struct early_connection {
    std::uint32_t listener_index;
    unique_fd fd;
  };

  void add(handle& target) override;
  void remove(handle& target) noexcept override;
  int watch(handle& /*target*/, direction /*way*/) noexcept override { return 0; }
  int wait_for(handle& target, direction side) noexcept override {
    subscribe_to(target, side);
    return 0;
  }
  void subscribe_to(handle& target, direction side) noexcept;
  result take_early(handle& target, request& reader) noexcept override;
  bool may_have_early(const handle& target) const noexcept override {
    return ring_.ready() > 0 || registrations_[target.index].has_early_data();
  }

  void subscribe(handle& target, subscription kind) noexcept;
  void unsubscribe(handle& target, subscription kind) noexcept;
  void note_change(handle& target) noexcept;
  bool submit_changes_of(std::uint32_t index) noexcept;
  bool submit(handle& target, subscription kind) noexcept;
  bool submit_cancel(std::uint32_t index, subscription kind) noexcept;
  bool cancel_all_of(std::uint32_t index) noexcept;
  bool is_waited_for(const handle& target, subscription kind) const noexcept;
  void note_unconfirmed(handle& target) noexcept;
  bool has_unconfirmed() noexcept;
  void check_some_after_interruption() noexcept;
  bool can_receive(const handle& source, const request& reader) const noexcept;
  bool can_accept(const request& reader) const noexcept;
  bool prefers_to_receive(const handle& source, registration& entry) noexcept;

  void await_end_of(std::uint32_t index) noexcept;
  void examine_completions() noexcept;
  void discard_completions_of(std::uint32_t index) noexcept;
  void discard_oldest_stale() noexcept;

  // Returns the handle of a completion; null if the handle was removed.
  handle* target_of(const io_uring_cqe& completion) const noexcept {
    const subscription_id id = detail::id_of(completion);
    return registrations_[id.index].generation == id.generation ? handles()[id.index] : nullptr;
  }
  void record_for(handle& target, const io_uring_cqe& completion) noexcept;
  // Releases the buffer or the connection in a completion of a removed handle.
  void discard_completion(const io_uring_cqe& completion) noexcept;
  // Lends the received bytes to the request that waits for them. Returns false if record_for() must
  // keep them.
  bool deliver_bytes(handle& target, const io_uring_cqe& completion) noexcept;
  // Returns whether a request waits for the accepted connection; if not, record_for() must keep it.
  bool deliver_connection(handle& target, const io_uring_cqe& completion) noexcept;
  void record_received(handle& target, const io_uring_cqe& completion) noexcept;
  void record_accepted(handle& target, const io_uring_cqe& completion) noexcept;
  // Carries out a request that reads bytes. Returns nothing if there are no bytes, or too few for a
  // whole buffer.
  std::optional<result> read_early(registration& entry, request& reader) noexcept;
  std::size_t scatter_early(registration& entry, std::span<const iovec> pieces) noexcept;
  std::size_t read_early_message(registration& entry, msghdr& message) noexcept;
  std::optional<result> accept_early(accept_request& acceptor) noexcept;
  void update_flags(handle& target) noexcept;
  subscription_id id_of(std::uint32_t index, subscription kind) const noexcept {
    return {kind, registrations_[index].generation, index};
  }

  ring_owner& owner_;
  uring& ring_;
  uring_features features_;
  // The position of a registration is the handle's index.
  chunked_array<registration> registrations_;
  // Indices of handles, with room for all: changed_handles_ has the handles whose subscriptions may
  // have to change, unconfirmed_handles_ the handles that wait because a read was short.
  std::vector<std::uint32_t> changed_handles_;
  std::vector<std::uint32_t> unconfirmed_handles_;
  // The number of handles that are still to be checked after an interruption, and the index of the
  // one that was checked last, so that frequent signals let all have their turn.
  std::size_t unchecked_handles_ = 0;
  std::size_t last_checked_ = 0;
  std::vector<early_connection> connections_;
  std::uint64_t examined_until_ = 0;  // the number of the first unexamined completion
  std::uint64_t examined_completions_ = 0;
  buffer_ring buffers_;
  bool has_buffers_ = false;  // whether the ring has the buffers
};

}  // namespace gyre::io::detail
