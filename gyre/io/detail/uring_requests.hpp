// SPDX-License-Identifier: Apache-2.0
// Requests on io_uring. The kernel is asked for what lasts: to tell when a descriptor becomes readable,
// to accept whoever connects, to receive whatever comes into buffers of the loop. These orders name a
// place in a table, never a request or its memory; so to cancel a request is to forget it, and only
// closing a descriptor has to wait for the kernel. Everything else is done by calls at once, as
// ready_requests does it.
//
// Orders are not given at once. What is wanted of each handle is noted, compared with what the kernel
// has, and the difference submitted with the loop's next wait.
#pragma once

#include <liburing.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <gyre/base/unique_fd.hpp>
#include <gyre/io/detail/buffer_ring.hpp>
#include <gyre/io/detail/index_set.hpp>
#include <gyre/io/detail/ready_requests.hpp>
#include <gyre/io/detail/uring.hpp>
#include <gyre/io/uring_support.hpp>

namespace gyre::io::detail {

class uring_requests final : public ready_requests {
 public:
  /// Whoever owns the ring.
  struct owner {
    /// Closes it, so that what the kernel was asked for ends.
    virtual void abandon_ring() noexcept = 0;
    virtual file_service* files() noexcept = 0;

   protected:
    ~owner() = default;
  };

  /// Completions with this in the lowest byte of `user_data` are its own.
  static constexpr std::uint64_t completion_tag = 1;
  static std::uint64_t tag_of(const io_uring_cqe& completion) noexcept {
    return completion.user_data & 0xff;
  }

  /// Throws std::bad_alloc.
  uring_requests(owner& of, uring& ring, const uring_features& features);

  file_service* files() noexcept override { return owner_.files(); }

  // The poller's.
  /// Provides a ring that was opened with what it needs.
  void begin_with_ring() noexcept;
  /// Takes what a completion brings, calling nobody.
  void save(const io_uring_cqe& completion) noexcept;
  /// Takes back what the kernel was asked for; false: it has nothing any more.
  bool take_back_all() noexcept;
  /// Drops what came before it was asked for.
  void forget_what_came() noexcept;
  /// The kernel has nothing any more: what is under way is tried again.
  void begin_anew() noexcept;
  /// Whether nobody waits who was told by a short read that there is nothing more.
  bool sure() const noexcept { return doubtful_.empty(); }
  /// Has those who were try again.
  void doubt_short_reads() noexcept;
  /// Writes what is wanted into the ring. False: there was no room for all.
  bool flush() noexcept;
  void serve_completion(const io_uring_cqe& completion, std::size_t& completed);
  /// How many completions that were not to be served yet have been looked at, to close handles.
  std::uint64_t looked_at() const noexcept { return looked_at_; }

 private:
  // What the kernel can be asked for, until it is cancelled.
  enum order : std::uint8_t {
    tell_readable = 1,
    tell_writable = 2,
    receive_all = 4,
    accept_all = 8
  };
  static constexpr order all_orders[] = {tell_readable, tell_writable, receive_all, accept_all};

  // Of a message that shows that calls are better than receive_all, and of one that shows that they are
  // not, and of how many of these in a row.
  static constexpr std::size_t large_message = buffer_ring::bytes_each;
  static constexpr std::size_t small_message = buffer_ring::bytes_each / 2;
  static constexpr std::uint8_t many_small = 16;

  // What is known of a handle beside its state.
  struct place {
    std::uint32_t generation = 0;
    std::uint8_t wanted = 0;          // orders
    std::uint8_t given = 0;           // orders that the kernel has
    std::uint8_t cancelled = 0;       // of these, those that it was asked to end
    std::uint8_t ended = 0;           // of these, those whose last completion is ready to be taken
    bool prefers_calls = false;       // to receive
    std::uint8_t small_messages = 0;  // in a row
    int error = 0;                    // came after `early`, and was not told yet
    buffer_ring::queue early;         // came before it was asked for
    std::uint32_t early_connections = 0;

    bool has_early() const noexcept {
      return !early.empty() || error != 0 || early_connections != 0;
    }
  };
  struct early_connection {
    std::uint32_t index;
    unique_fd fd;
  };

  void begin(handle& served) override;
  void end(handle& served) noexcept override;
  void wait_for_readiness(handle& of, bool writing) noexcept override;
  result read_diverted(request& asked) noexcept override;
  bool next_connection(accept_request& asked, result& made) noexcept;
  bool next_bytes(request& asked, place& at, result& made) noexcept;

  void want(place& at, std::uint32_t index, order what) noexcept;
  void want_no_more(place& at, std::uint32_t index, order what) noexcept;
  bool still_wanted(std::uint32_t index, order what) const noexcept;
  bool give(std::uint32_t index, order what) noexcept;
  bool take_back(std::uint32_t index, order what) noexcept;
  bool take_back_orders(std::uint32_t index) noexcept;
  bool can_receive_all(const request& asked) const noexcept;
  bool can_accept_all(const request& asked) const noexcept;
  bool receives_all(const request& asked, place& at) noexcept;
  void end_orders(std::uint32_t index) noexcept;
  static bool has_unended(const place& at) noexcept { return (at.given & ~at.ended) != 0; }
  void note_ends() noexcept;
  void drop_completions(std::uint32_t index) noexcept;
  void drop_stale() noexcept;
  void update_state(handle& of, const place& at) noexcept;
  static bool is_refusal(const io_uring_cqe& completion) noexcept;

  std::uint64_t name_of(std::uint32_t index, order what) const noexcept;
  // Whose it is; null: of a handle that was detached, or of an order that was taken back.
  handle* target_of(const io_uring_cqe& completion) const noexcept;
  static order order_of(const io_uring_cqe& completion) noexcept;
  void drop(const io_uring_cqe& completion) noexcept;
  // Notes what a completion tells, and keeps what it brings.
  void note(const io_uring_cqe& completion, handle& target) noexcept;
  void note_received(const io_uring_cqe& completion, std::uint32_t index, place& at) noexcept;
  void note_accepted(const io_uring_cqe& completion, std::uint32_t index, place& at) noexcept;
  static void note_end(const io_uring_cqe& completion, place& at) noexcept;
  bool hand_over_bytes(const io_uring_cqe& completion, handle& target, std::size_t& completed);
  bool hand_over_connection(const io_uring_cqe& completion, handle& target, std::size_t& completed);

  owner& owner_;
  uring& ring_;
  uring_features features_;
  std::vector<place> places_;  // by the handle's index
  index_set changed_;          // handles of which something else is wanted than given
  index_set doubtful_;         // handles that wait because a read was short
  std::vector<early_connection> early_connections_;
  std::uint64_t looked_until_ =
      0;  // the number of the first completion that note_ends() has not seen
  std::uint64_t looked_at_ = 0;
  buffer_ring buffers_;
  bool has_buffers_ = false;  // the ring
};

}  // namespace gyre::io::detail
