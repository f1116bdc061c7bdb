// SPDX-License-Identifier: Apache-2.0
// registry: all metrics of a program: its own counters, and those of gyre's loops, pools, servers
// and clients.
//
//     gyre::metrics::registry metrics;
//     gyre::metrics::counter& orders = metrics.make_counter("shop_orders_total", "Placed orders.");
//     const auto counted_loop = metrics.add("network", loop);
//     const auto counted_pool = metrics.add("workers", pool);
//     orders.add();
//     gyre::metrics::exposition page = co_await metrics.collect();
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/base/move_only_function.hpp>
#include <gyre/metrics/counter.hpp>
#include <gyre/metrics/detail/registry_core.hpp>
#include <gyre/metrics/duration_histogram.hpp>
#include <gyre/metrics/early_counts.hpp>
#include <gyre/metrics/exposition.hpp>
#include <gyre/metrics/family.hpp>
#include <gyre/metrics/family_options.hpp>
#include <gyre/metrics/gauge.hpp>
#include <gyre/metrics/registration.hpp>
#include <gyre/metrics/size_histogram.hpp>
#include <gyre/metrics/writable.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/task.hpp>

#include <chrono>
#include <concepts>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

namespace gyre::metrics {

/// The metrics of a program, in three kinds:
/// - instruments, which the make_ functions return: the registry owns them, and a second call with
///   the same name returns the same instrument;
/// - objects of gyre, or of the program, whose counts are read when the metrics are collected (see
///   writable), so that registering costs nothing while the program works;
/// - functions that add samples.
///
/// Objects are added explicitly, because only the program knows which name tells its operators
/// something, and because rooms that count need not know a registry. The samples of an object have
/// the label `name`.
///
/// Thread-safety: every member may be called from any thread, but the constructor and destructor.
/// Lifetime: instruments and families live as long as the registry. An object must not be moved,
/// and must live until its registration was destroyed. Running collections may outlive the
/// registry.
/// Errors: std::invalid_argument for a name or a label that exposition refuses, for an instrument
/// that exists with another type or other labels, and for two objects of one type with one name.
/// Complexity: nothing while the program works. A collection takes some microseconds for each
/// object, and posts one task to each loop that objects belong to.
class registry {
 public:
  registry();
  registry(const registry&) = delete;
  registry& operator=(const registry&) = delete;
  ~registry();

  /// Returns the counter of this name, which the first call makes.
  counter& make_counter(std::string_view name, std::string_view help);
  /// Returns the gauge of this name, which the first call makes.
  gauge& make_gauge(std::string_view name, std::string_view help);
  /// Returns the histogram of durations of this name, which the first call makes.
  duration_histogram& make_duration_histogram(
      std::string_view name, std::string_view help,
      std::span<const duration> limits = exposition::default_limits);
  /// Returns the histogram of sizes of this name, which the first call makes.
  size_histogram& make_size_histogram(std::string_view name, std::string_view help,
                                      std::span<const std::uint64_t> limits);

  /// Makes a family of counters, which differ by the values of `labels`, or returns the one of this
  /// name.
  family<counter>& make_counters(std::string_view name, std::string_view help,
                                 std::vector<std::string> labels, family_options options = {});
  /// Makes a family of gauges: see make_counters().
  family<gauge>& make_gauges(std::string_view name, std::string_view help,
                             std::vector<std::string> labels, family_options options = {});
  /// Makes a family of histograms of durations: see make_counters().
  family<duration_histogram>& make_duration_histograms(
      std::string_view name, std::string_view help, std::vector<std::string> labels,
      std::span<const duration> limits = exposition::default_limits, family_options options = {});
  /// Makes a family of histograms of sizes: see make_counters().
  family<size_histogram>& make_size_histograms(std::string_view name, std::string_view help,
                                               std::vector<std::string> labels,
                                               std::span<const std::uint64_t> limits,
                                               family_options options = {});

  /// Adds an object whose counts any thread may read: a loop, a pool, a server. A loop or pool is
  /// also asked to run an empty task for each collection: `gyre_executor_up` is 0 while it is held,
  /// and `gyre_executor_response_seconds` has the times until the task ran.
  template <writable Object>
  registration add(std::string name, Object& object) {
    using counts = std::remove_cvref_t<decltype(detail::read_counts(object))>;
    static_assert(!is_read_on_owner<counts>,
                  "this object belongs to a loop: write add(name, loop, object)");
    executor* self = nullptr;
    if constexpr (std::derived_from<Object, executor>) self = &object;
    return add_source({.name = std::move(name),
                       .type = typeid(counts),
                       .owner = nullptr,
                       .self = self,
                       .write = [&object](exposition& output) {
                         write_metrics(output, detail::read_counts(object));
                       }});
  }
  /// Adds an object that belongs to the thread of `owner`, such as a client of HTTP or a connection
  /// pool: it is read by a task that is posted to `owner`, which must outlive the registration.
  template <writable Object>
  registration add(std::string name, executor& owner, Object& object) {
    using counts = std::remove_cvref_t<decltype(detail::read_counts(object))>;
    return add_source({.name = std::move(name),
                       .type = typeid(counts),
                       .owner = &owner,
                       .self = nullptr,
                       .write = [&object](exposition& output) {
                         write_metrics(output, detail::read_counts(object));
                       }});
  }
  /// Adds a function that adds samples, such as a gauge that is measured when it is asked for. It
  /// is called on any thread, and must neither destroy its registration nor collect.
  registration add_function(move_only_function<void(exposition&)> write);

  /// Returns all samples. The objects of a loop that has not responded within `limit` are left out,
  /// and counted in `gyre_metrics_unanswered_sources`, so that the metrics of a program whose loops
  /// are held still come.
  ///
  /// Errors: std::errc::operation_not_supported if it must wait and the coroutine's executor has no
  /// timers; operation_cancelled after a stop request; std::bad_alloc. An object whose function
  /// throws is left out, and counted in `gyre_metrics_failed_reads_total`.
  [[nodiscard]] task<exposition> collect(exposition_format format = exposition_format::text,
                                         duration limit = std::chrono::seconds{1}) const;

 private:
  registration add_source(detail::source_settings settings);

  std::shared_ptr<detail::registry_core> core_;
};

}  // namespace gyre::metrics
