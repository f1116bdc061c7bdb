// SPDX-License-Identifier: Apache-2.0
// wait_core: the claim word of a wait, which decides which of several threads resumes the
// coroutine.
#pragma once

#include <gyre/base/atomic.hpp>

#include <cstdint>

namespace gyre::detail {

/// The claim word of a wait. The threads that start, complete and stop the wait are its parties,
/// each a bit of the word. A party leaves once, after its last access to the wait. The last party
/// to leave resumes the coroutine, or lets it continue if it has not suspended yet.
///
/// `Word` stores the parties: an atomic, or a word that a lock protects.
///
/// Thread-safety: all members but begin() may be called from any thread; with the lock held if a
/// lock protects `Word`.
/// Complexity: one locked instruction for each party that leaves, claims or joins; none if a lock
/// protects `Word`.
template <class Parties, class Word = atomic<Parties>>
class basic_wait_core {
 public:
  using parties = Parties;

  constexpr explicit basic_wait_core(parties initial_parties = 0) noexcept
      : present_parties_(initial_parties) {}

  /// Sets the parties, before the wait is shared.
  void begin(parties initial_parties) noexcept {
    present_parties_.store(initial_parties,
                           std::memory_order_relaxed);  // relaxed: no other thread has the wait yet
  }
  /// Returns whether one of `candidates` is present. All actions of the candidates that have left
  /// happen before the return.
  [[nodiscard]] bool has(parties candidates) const noexcept {
    // acquire: pairs with the release in leave(); makes the actions of the parties that have left
    // visible.
    return (present_parties_.load(std::memory_order_acquire) & candidates) != 0;
  }
  /// Removes `party`, all bits of which must be present. Returns true if no party is left; all
  /// actions of the other parties then happen before the return. If it returns false, the wait may
  /// have been destroyed.
  [[nodiscard]] bool leave(parties party) noexcept {
    // acquire and release: the call that removes the last party synchronises with all earlier
    // calls.
    return present_parties_.fetch_sub(party, std::memory_order_acq_rel) == party;
  }
  /// Adds `party`. Returns false instead if `required_parties`, on which `party` acts, have left.
  [[nodiscard]] bool join(parties party, parties required_parties) noexcept {
    // acquire: pairs with the release in leave(); makes the actions of the parties that have left
    // visible. release: pairs with the acquire in leave(); makes the caller's earlier actions
    // visible to the last party.
    parties expected = present_parties_.load(std::memory_order_acquire);
    do {
      if ((expected & required_parties) == 0) return false;
    } while (!present_parties_.compare_exchange_weak(
        expected, static_cast<parties>(expected | party), std::memory_order_acq_rel,
        std::memory_order_acquire));
    return true;
  }
  /// Claims `right`, a bit that is not a party. Returns true for the first caller. Must be called
  /// before the party that uses the right leaves.
  [[nodiscard]] bool claim(parties right) noexcept {
    const auto rest = static_cast<parties>(~right);
    // relaxed: the claimant's writes become visible by its leave().
    return (present_parties_.fetch_and(rest, std::memory_order_relaxed) & right) != 0;
  }

  /// Returns the word, for the class that owns the wait.
  [[nodiscard]] Word& word() noexcept { return present_parties_; }
  [[nodiscard]] const Word& word() const noexcept { return present_parties_; }

 private:
  Word present_parties_;
};

/// The claim word of a wait that any thread may end.
using wait_core = basic_wait_core<std::uint8_t>;

}  // namespace gyre::detail
