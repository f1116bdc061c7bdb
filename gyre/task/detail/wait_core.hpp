// SPDX-License-Identifier: Apache-2.0
// wait_core: the claim word of a wait; it decides which of several threads resumes the coroutine.
#pragma once

#include <gyre/base/atomic.hpp>

#include <cstdint>

namespace gyre::detail {

/// The threads that start, complete and stop a wait are its parties, each a bit of the word. A
/// party leaves once, after it has touched the wait for the last time. The last one to leave
/// resumes the coroutine, or lets it continue if it has not suspended yet.
///
/// `Word` stores the parties: an atomic, or a word that is used with a lock held.
///
/// Thread-safety: any thread, except begin(); or with the lock held.
/// Complexity: one locked instruction for each party that leaves, claims or joins; none in a word
/// that a lock protects.
template <class Parties, class Word = atomic<Parties>>
class basic_wait_core {
 public:
  using parties = Parties;

  constexpr explicit basic_wait_core(parties present = 0) noexcept : present_(present) {}

  /// Sets the parties, before the wait is shared.
  void begin(parties present) noexcept {
    present_.store(present, std::memory_order_relaxed);  // relaxed: not shared yet
  }
  /// Whether one of `candidates` is present. What those that have left did before happens before
  /// the return.
  [[nodiscard]] bool has(parties candidates) const noexcept {
    // acquire: pairs with the release in leave().
    return (present_.load(std::memory_order_acquire) & candidates) != 0;
  }
  /// Removes `party`, all bits of which are present; true if nobody is left, and what the others
  /// did happens before the return. Otherwise the wait may be gone.
  [[nodiscard]] bool leave(parties party) noexcept {
    // release: pairs with the acquire of the last party, here as well.
    return present_.fetch_sub(party, std::memory_order_acq_rel) == party;
  }
  /// Adds `party` unless `needed`, the party that it acts on, has left.
  [[nodiscard]] bool join(parties party, parties needed) noexcept {
    // acquire: pairs with the release in leave(), of a party that has left. release: what the
    // caller did before is seen by the last party.
    parties seen = present_.load(std::memory_order_acquire);
    do {
      if ((seen & needed) == 0) return false;
    } while (!present_.compare_exchange_weak(seen, static_cast<parties>(seen | party),
                                             std::memory_order_acq_rel, std::memory_order_acquire));
    return true;
  }
  /// Takes `right`, a bit that is no party; true for the first caller. To be called before the
  /// party that uses the right leaves.
  [[nodiscard]] bool claim(parties right) noexcept {
    const auto rest = static_cast<parties>(~right);
    // relaxed: what the claimant sets is handed over by leave().
    return (present_.fetch_and(rest, std::memory_order_relaxed) & right) != 0;
  }

  /// The word, for its owner.
  [[nodiscard]] Word& word() noexcept { return present_; }
  [[nodiscard]] const Word& word() const noexcept { return present_; }

 private:
  Word present_;
};

/// The claim word of a wait that any thread may end.
using wait_core = basic_wait_core<std::uint8_t>;

}  // namespace gyre::detail
