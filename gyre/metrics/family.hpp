// SPDX-License-Identifier: Apache-2.0
// family: instruments of one name, told apart by the values of labels.
//
//     auto& mails = metrics.make_counters("shop_mails_total", "Mails by their end.", {"end"});
//     mails.with({"sent"}).add();
#pragma once

#include <gyre/metrics/counter.hpp>
#include <gyre/metrics/detail/instrument.hpp>
#include <gyre/metrics/exposition.hpp>
#include <gyre/metrics/family_options.hpp>
#include <gyre/metrics/label.hpp>

#include <algorithm>
#include <compare>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gyre::metrics {

/// Instruments (counter, gauge, duration_histogram, size_histogram) of one metric, one for each
/// combination of label values. A registry makes and owns it.
///
/// Thread-safety: any thread.
/// Lifetime: as long as its registry; so do its instruments.
/// Errors: std::invalid_argument for another number of values than the family has labels;
/// std::bad_alloc for a new series.
/// Complexity: with() takes a shared lock and compares texts, some 50 ns, and allocates only for a
/// new series: keep the reference where the values are known beforehand.
template <class Instrument>
class family final : public detail::instrument {
 public:
  /// Called by a registry. `prototype` makes an instrument.
  family(std::string name, std::string help, std::vector<std::string> labels,
         family_options options, detail::prototype<Instrument> prototype, counter& refusals)
      : detail::instrument(std::move(name), std::move(help)),
        labels_(std::move(labels)),
        options_(options),
        prototype_(std::move(prototype)),
        refusals_(refusals) {
    if (options_.max_series == 0) {
      throw std::invalid_argument("gyre::metrics::family: max_series must be at least 1");
    }
  }

  /// Returns the instrument of these label values, in the order of the labels.
  [[nodiscard]] Instrument& with(std::initializer_list<std::string_view> values) {
    return with(std::span<const std::string_view>(values.begin(), values.size()));
  }
  [[nodiscard]] Instrument& with(std::span<const std::string_view> values) {
    if (values.size() != labels_.size()) {
      throw std::invalid_argument("gyre::metrics::family: '" + this->name() + "' has " +
                                  std::to_string(labels_.size()) + " labels, not " +
                                  std::to_string(values.size()));
    }
    {
      const std::shared_lock lock(mutex_);
      if (const auto match = series_.find(values); match != series_.end()) return *match->second;
    }
    return add_series(values);
  }

  void write(exposition& output) const override {
    const std::shared_lock lock(mutex_);
    for (const auto& [values, own_instrument] : series_)
      write_series(output, values, *own_instrument);
    if (overflow_) {
      write_series(output, std::vector<std::string>(labels_.size(), "other"), *overflow_);
    }
  }
  [[nodiscard]] bool has_labels(std::span<const std::string> names) const noexcept override {
    return std::ranges::equal(labels_, names);
  }

 private:
  struct less_values {
    using is_transparent = void;
    template <class Left, class Right>
    bool operator()(const Left& left, const Right& right) const noexcept {
      return std::lexicographical_compare(
          left.begin(), left.end(), right.begin(), right.end(),
          [](std::string_view first, std::string_view two) { return first < two; });
    }
  };

  Instrument& add_series(std::span<const std::string_view> values) {
    const std::lock_guard lock(mutex_);
    if (const auto match = series_.find(values); match != series_.end()) return *match->second;
    const bool is_other =
        std::ranges::all_of(values, [](std::string_view value) { return value == "other"; });
    if (is_other || series_.size() >= options_.max_series) {
      if (!is_other) refusals_.add();
      if (!overflow_) overflow_ = prototype_();
      return *overflow_;
    }
    std::vector<std::string> own_values(values.begin(), values.end());
    return *series_.emplace(std::move(own_values), prototype_()).first->second;
  }
  void write_series(exposition& output, const std::vector<std::string>& values,
                    const Instrument& series) const {
    std::vector<label> labels;
    for (std::size_t i = 0; i < labels_.size(); ++i) labels.push_back({labels_[i], values[i]});
    detail::write_value(output, this->name(), this->help(), series, labels);
  }

  const std::vector<std::string> labels_;
  const family_options options_;
  const detail::prototype<Instrument> prototype_;
  counter& refusals_;
  mutable std::shared_mutex mutex_;  // guards the members below
  std::map<std::vector<std::string>, std::unique_ptr<Instrument>, less_values> series_;
  std::unique_ptr<Instrument> overflow_;  // shared by the combinations above max_series
};

}  // namespace gyre::metrics
