// SPDX-License-Identifier: Apache-2.0
// exposition: counts and durations as a text for monitoring systems, in the formats of Prometheus
// and OpenMetrics.
//
//     gyre::metrics::exposition page;
//     page.add_counter("shop_orders_total", "Orders that were placed.", orders);
//     page.add_counter("shop_mails_total", "Mails by their end.", sent, {{"end", "sent"}});
//     page.add_gauge("shop_carts", "Carts that are not empty now.", carts);
//     page.add_histogram("shop_payment_seconds", "Time of a payment.", paid);
//     std::cout << page.text();
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/base/histogram.hpp>
#include <gyre/metrics/label.hpp>

#include <array>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gyre::metrics {

/// The format of the text that a scraper gets.
enum class exposition_format : std::uint8_t {
  text,         ///< the text format of Prometheus, version 0.0.4
  open_metrics  ///< OpenMetrics, version 1.0
};

/// The samples of a histogram whose values were counted in buckets.
struct bucket_sample {
  /// The upper limits of the buckets, which must rise, in the unit of the metric.
  std::span<const double> limits;
  /// The number of values in each bucket alone, one more than there are limits: the last bucket has
  /// the values above all limits.
  std::span<const std::uint64_t> counts;
  double sum = 0;
};

/// Collects samples, and writes them with the help and the type of their metrics. The samples of a
/// metric, which differ by their labels, stand together, in the order in which they were added, and
/// so do the metrics, in the order of their first samples.
///
/// Names follow the conventions of Prometheus: base units (seconds, bytes) at the end of the name,
/// and `_total` at the end of a counter's. OpenMetrics demands `_total`, so it is added there if it
/// is missing.
///
/// Thread-safety: as a value.
/// Errors: std::invalid_argument for a name of a metric or a label that the formats do not allow
/// ("quantile", "le" and names that begin with "__" are not allowed for labels), for a name that
/// was used for another type, for two samples with the same name and labels, and for two labels of
/// one name. The names of a summary or histogram include those of its samples, which end with
/// "_sum", "_count" and "_bucket". Nothing is added by a call that fails.
/// Complexity: linear in the text, and logarithmic in the samples; a gyre::histogram is copied
/// first, 7.5 KiB on the stack.
class exposition {
 public:
  /// The upper limits of the buckets of add_histogram(), from 1 ms to 10 s.
  static constexpr std::array<duration, 13> default_limits = {
      std::chrono::milliseconds{1},    std::chrono::microseconds{2500},
      std::chrono::milliseconds{5},    std::chrono::milliseconds{10},
      std::chrono::milliseconds{25},   std::chrono::milliseconds{50},
      std::chrono::milliseconds{100},  std::chrono::milliseconds{250},
      std::chrono::milliseconds{500},  std::chrono::seconds{1},
      std::chrono::milliseconds{2500}, std::chrono::seconds{5},
      std::chrono::seconds{10},
  };

  explicit exposition(exposition_format format = exposition_format::text) noexcept
      : format_(format) {}

  [[nodiscard]] exposition_format format() const noexcept { return format_; }
  /// The media type of the text, for the field Content-Type.
  [[nodiscard]] std::string_view content_type() const noexcept;

  /// Sets labels that all samples get that are added from now on, before their own.
  void set_common_labels(label_view labels);

  /// A count that only grows, until the program starts again.
  void add_counter(std::string_view name, std::string_view help, std::uint64_t value,
                   label_view labels = {});
  /// A sum of durations, in seconds.
  void add_counter(std::string_view name, std::string_view help, duration value,
                   label_view labels = {});
  /// A value that rises and falls.
  template <class Number>
    requires std::integral<Number> || std::floating_point<Number>
  void add_gauge(std::string_view name, std::string_view help, Number value,
                 label_view labels = {}) {
    append_gauge(name, help, static_cast<double>(value), labels);
  }
  /// A duration, in seconds.
  void add_gauge(std::string_view name, std::string_view help, duration value,
                 label_view labels = {});
  /// Durations, in seconds: the quantiles 0.5, 0.9, 0.99 and 0.999 of all of them, their sum, and
  /// their number. The label "quantile" is added.
  void add_summary(std::string_view name, std::string_view help, const histogram& durations,
                   label_view labels = {});
  /// Durations, in seconds: for each of `limits`, which must rise, the number of durations of at
  /// most that length, exact to 1/32 of the limit; their sum, and their number. The label "le" is
  /// added. Unlike the quantiles of a summary, the buckets of several programs can be added up.
  void add_histogram(std::string_view name, std::string_view help, const histogram& durations,
                     label_view labels = {}, std::span<const duration> limits = default_limits);
  /// Values that were counted in buckets.
  void add_bucket_histogram(std::string_view name, std::string_view help,
                            const bucket_sample& values, label_view labels = {});

  /// Adds the samples of `other`, which must have the same format. Returns the number of samples
  /// that were dropped, because this exposition has samples with the same name and labels, or a
  /// metric with the name but of another type.
  std::size_t merge(const exposition& other);

  /// Returns the text of all samples so far.
  [[nodiscard]] std::string text() const;

 private:
  enum class kind : std::uint8_t { counter, gauge, summary, histogram };

  struct sample {
    std::string label_set;  // a text that equal sets of labels share
    std::string lines;
  };
  struct family {
    std::string name;
    std::string help;
    kind type = kind::counter;
    std::vector<sample> samples;
    std::set<std::string, std::less<>> label_sets;
  };

  void append_gauge(std::string_view name, std::string_view help, double value, label_view labels);
  void append_counter(std::string_view name, std::string_view help, std::string_view value,
                      label_view labels);
  // Checks the names, and returns the family and the labels' text of the next sample.
  family& prepare(std::string_view name, std::string_view help, kind type, label_view labels,
                  std::string& label_set);
  family& find_or_add(std::string_view name, std::string_view help, kind type);
  void append_line(std::string& output, std::string_view name, std::string_view suffix,
                   label_view labels, label added_label, std::string_view value) const;
  [[nodiscard]] std::string limit_text(double limit) const;
  static void append_metadata(std::string& output, const family& source, exposition_format format);

  exposition_format format_;
  std::vector<family> families_;
  std::map<std::string, std::size_t, std::less<>> indices_;  // the indices of families_, by name
  std::set<std::string, std::less<>> sample_names_;          // the names of all samples
  std::vector<std::string> common_names_;
  std::vector<std::string> common_values_;
};

}  // namespace gyre::metrics
