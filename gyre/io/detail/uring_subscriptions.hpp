// SPDX-License-Identifier: Apache-2.0
// Subscriptions on io_uring: what the kernel does for a handle until it is cancelled, such as
// receiving all that comes into buffers of the loop (multishot requests).
//
// A subscription names an entry of a table, never a request or its memory; so to cancel a request
// is to forget it, and only closing a descriptor has to wait for the kernel. Changes are noted for
// each handle, and submitted with the loop's next wait.
#pragma once

#include <gyre/io/detail/buffer_ring.hpp>
#include <gyre/io/detail/early_data.hpp>
#include <gyre/io/detail/index_set.hpp>
#include <gyre/io/detail/readiness_source.hpp>
#include <gyre/io/detail/subscription.hpp>
#include <gyre/io/detail/uring.hpp>
#include <gyre/io/uring_support.hpp>

#include <liburing.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gyre::io {
class file_service;
}  // namespace gyre::io

namespace gyre::io::detail {

/// The owner of a ring.
class uring_owner {
 public:
  /// Closes the ring, which ends all subscriptions.
  virtual void abandon_ring() noexcept = 0;
  virtual file_service* files() noexcept = 0;

 protected:
  ~uring_owner() = default;
};

class uring_subscriptions final : public readiness_source {
 public:
  /// Throws std::bad_alloc.
  uring_subscriptions(uring_owner& owner, uring& ring, const uring_features& features);

  // As readiness_source.
  void add(handle& watched) override;
  void remove(handle& watched) noexcept override;
  void wait_for(handle& waiting, direction way) noexcept override;
  result read_early(request& reader) noexcept override;

  // For the poller: the ring's life.
  /// Gives the kernel the buffers that it receives into. After the ring was opened.
  void provide_buffers() noexcept;
  /// Writes all changes into the ring; false: there was no room for all.
  bool submit_changes() noexcept;
  /// Cancels all subscriptions; false: there are none any more.
  bool cancel_all() noexcept;
  /// Forgets all subscriptions, which have ended with their ring. Early data stays.
  void reset() noexcept;
  void discard_early_data() noexcept;

  // For completions.
  /// The handle that a completion is for; null if that was removed.
  handle* target_of(const io_uring_cqe& completion) const noexcept {
    const subscription_id id = detail::id_of(completion);
    const registration& entry = registrations_[id.index];
    return entry.generation == id.generation ? entry.watched : nullptr;
  }
  /// Notes what a completion tells, and keeps what it brings as early data. Completes no request.
  void record(const io_uring_cqe& completion) noexcept;
  void record_for(handle& target, const io_uring_cqe& completion) noexcept;
  /// Gives back what a completion of a removed handle brings.
  void discard(const io_uring_cqe& completion) noexcept;
  /// Records bytes that a request waits for, and lends them to it. False: they have to be recorded.
  bool deliver_bytes(handle& target, const io_uring_cqe& completion) noexcept;
  /// Records a connection that a request waits for, which takes its descriptor. False: as above.
  bool deliver_connection(handle& target, const io_uring_cqe& completion) noexcept;

  /// Whether no request waits only because a short read told that there was nothing more.
  bool all_reads_confirmed() const noexcept { return unconfirmed_.empty(); }
  /// The handle of such a request, which may be read again; there must be one.
  handle& take_unconfirmed() noexcept;

  /// How many completions were looked at before they were taken, to close handles.
  std::uint64_t examined() const noexcept { return examined_; }

 private:
  // A message that shows that calls are better than multishot receive, one that shows that they are
  // not, and how many of these in a row are believed.
  static constexpr std::size_t large_message = buffer_ring::bytes_each;
  static constexpr std::size_t small_message = buffer_ring::bytes_each / 2;
  static constexpr std::uint8_t many_small = 16;

  // The subscriptions of a handle, and its early data.
  struct registration {
    handle* watched = nullptr;
    std::uint32_t generation = 0;
    subscription_set wanted;
    subscription_set armed;  // that the kernel has
    subscription_set cancelled;
    subscription_set ended;           // their last completion is ready to be taken
    bool prefers_calls = false;       // to receive
    std::uint8_t small_messages = 0;  // in a row
    early_data early;

    void end(subscription which) noexcept {
      for (subscription_set* const each : {&wanted, &armed, &cancelled, &ended}) each->erase(which);
    }
    bool has_live() const noexcept { return !(armed - ended).empty(); }
  };

  void subscribe(registration& entry, subscription which) noexcept;
  void unsubscribe(registration& entry, subscription which) noexcept;
  bool submit(registration& entry, subscription which) noexcept;
  bool cancel(registration& entry, subscription which) noexcept;
  bool cancel_all_of(registration& entry) noexcept;
  bool is_waited_for(const registration& entry, subscription which) const noexcept;
  bool can_receive(const request& reader) const noexcept;
  bool can_accept(const request& reader) const noexcept;
  bool prefers_to_receive(const request& reader, registration& entry) noexcept;

  void await_end_of(registration& entry) noexcept;
  void examine_completions() noexcept;
  void discard_completions_of(std::uint32_t index) noexcept;
  void discard_oldest_stale() noexcept;
  void record_received(registration& entry, const io_uring_cqe& completion) noexcept;
  void record_accepted(registration& entry, const io_uring_cqe& completion) noexcept;
  static void update_flags(registration& entry) noexcept;
  static subscription_id id_of(const registration& entry, subscription which) noexcept {
    return {which, entry.generation, entry.watched->index};
  }

  uring_owner& owner_;
  uring& ring_;
  uring_features features_;
  std::vector<registration> registrations_;  // by the handle's index
  index_set changed_;                        // handles with other subscriptions wanted than armed
  index_set unconfirmed_;                    // handles that wait because a read was short
  early_connections connections_;
  std::uint64_t examined_until_ = 0;  // the number of the first completion not examined
  std::uint64_t examined_ = 0;
  buffer_ring buffers_;
  bool has_buffers_ = false;  // the ring
};

}  // namespace gyre::io::detail
