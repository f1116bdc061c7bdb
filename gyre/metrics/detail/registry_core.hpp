// SPDX-License-Identifier: Apache-2.0
// registry_core: the state of a registry of metrics, which its registrations share.
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/metrics/counter.hpp>
#include <gyre/metrics/detail/instrument.hpp>
#include <gyre/metrics/detail/source.hpp>
#include <gyre/metrics/detail/watched_executor.hpp>
#include <gyre/metrics/exposition.hpp>
#include <gyre/task/task.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gyre::metrics::detail {

/// Thread-safety: any thread.
class registry_core {
 public:
  /// Returns the number of the source, by which remove() removes it. Throws std::invalid_argument
  /// if a source of its type has its name.
  [[nodiscard]] std::uint64_t add(source_settings settings);
  void remove(std::uint64_t number) noexcept;

  /// Returns the instrument of this name, and makes it by `make` if there is none. Throws
  /// std::invalid_argument if it has another type or other labels, or if the name is not allowed.
  template <class Instrument, class Make>
  Instrument& find_or_add(std::string_view name, std::span<const std::string> labels,
                          const Make& make) {
    const std::lock_guard lock(mutex_);
    if (const auto match = instruments_.find(name); match != instruments_.end()) {
      auto* const instrument = dynamic_cast<Instrument*>(match->second.get());
      if (instrument == nullptr || !instrument->has_labels(labels)) throw_conflict(name);
      return *instrument;
    }
    std::unique_ptr<Instrument> new_instrument = make();
    check(*new_instrument, labels);
    Instrument& result = *new_instrument;
    instruments_.emplace(name, std::move(new_instrument));
    return result;
  }
  [[nodiscard]] counter& refused_series() noexcept { return refused_series_; }

  [[nodiscard]] static task<exposition> collect(std::shared_ptr<registry_core> self,
                                                exposition_format format, duration limit);

 private:
  // The sources that one executor reads, or whose object that executor is.
  struct group {
    std::shared_ptr<watched_executor> executor;
    std::vector<std::shared_ptr<source>> sources;
  };

  [[noreturn, gnu::cold]] static void throw_conflict(std::string_view name);
  // Throws std::invalid_argument for names that an exposition refuses.
  static void check(const instrument& candidate, std::span<const std::string> labels);
  std::vector<std::shared_ptr<source>> sources();
  static std::vector<group> group_by_executor(std::span<const std::shared_ptr<source>> sources);
  void write_instruments(exposition& output);
  void write_own(exposition& output, std::size_t sources, std::size_t unanswered_sources);

  std::mutex mutex_;  // guards the members below
  std::uint64_t last_id_ = 0;
  std::map<std::uint64_t, std::shared_ptr<source>> sources_;
  std::vector<std::shared_ptr<watched_executor>> executors_;
  std::map<std::string, std::unique_ptr<instrument>, std::less<>> instruments_;
  counter refused_series_;
  counter failed_reads_;
  counter dropped_samples_;
};

}  // namespace gyre::metrics::detail
