// SPDX-License-Identifier: Apache-2.0
// writable: the customisation point by which an object's counts become samples.
//
//     struct cart_metrics {
//       std::uint64_t opened = 0;
//     };
//     void write_metrics(gyre::metrics::exposition& output, const cart_metrics& counts) {
//       output.add_counter("shop_carts_opened_total", "Carts that were opened.", counts.opened);
//     }
#pragma once

#include <concepts>
#include <type_traits>
#include <utility>

namespace gyre::metrics {

class exposition;

/// Counts that a function `write_metrics(exposition&, const Counts&)` in the namespace of their
/// class adds to an exposition. Every struct of counters of gyre has one.
template <class Counts>
concept writable_counts =
    requires(exposition& output, const Counts& counts) { write_metrics(output, counts); };

/// An object that has such a function, or whose metrics() or statistics() returns such counts.
template <class Object>
concept writable = writable_counts<Object> || requires(Object& object) {
  requires writable_counts<std::remove_cvref_t<decltype(object.metrics())>>;
} || requires(Object& object) {
  requires writable_counts<std::remove_cvref_t<decltype(object.statistics())>>;
};

/// Whether counts may be read only by the thread of the loop to which their object belongs: if so,
/// their class has a constant `is_read_on_owner`, and registry::add() demands the loop.
template <class Counts>
inline constexpr bool is_read_on_owner = false;
template <class Counts>
  requires requires { Counts::is_read_on_owner; }
inline constexpr bool is_read_on_owner<Counts> = Counts::is_read_on_owner;

namespace detail {

/// Returns the counts of an object: the object itself if it has its own write_metrics().
template <writable Object>
decltype(auto) read_counts(Object& object) {
  if constexpr (writable_counts<Object>) {
    return (object);
  } else if constexpr (requires { object.metrics(); }) {
    return object.metrics();
  } else {
    return object.statistics();
  }
}

}  // namespace detail
}  // namespace gyre::metrics
