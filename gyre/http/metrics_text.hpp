// SPDX-License-Identifier: Apache-2.0
// metrics_text: counts and durations as a page in Prometheus' text format, for monitoring systems.
//
//     gyre::http::metrics_text text;
//     text.add_counter("shop_orders_total", "Orders that were placed.", orders);
//     text.add_counter("shop_mails_total", "Mails by their end.", sent, {{"end", "sent"}});
//     text.add_counter("shop_mails_total", "Mails by their end.", refused, {{"end", "refused"}});
//     text.add_gauge("shop_carts", "Carts that are not empty now.", carts);
//     text.add_summary("shop_request_seconds", "Time until the response.", took);
//     text.add_histogram("shop_payment_seconds", "Time of a payment.", paid);
//     gyre::http::response page = text.response();
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/base/histogram.hpp>
#include <gyre/http/response.hpp>

#include <array>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gyre::http {

/// A label of a sample, such as {"code", "200"}. Its value is any UTF-8.
struct metric_label {
  std::string_view name;
  std::string_view value;
};

/// Writes samples in the text format of Prometheus, version 0.0.4. The samples of one metric, which
/// differ by their labels, follow each other; its help and type are written once, before them.
///
/// Thread-safety: as a value.
/// Errors: std::invalid_argument for a name of a metric or a label that the format does not allow
/// ("quantile", "le" and names that begin with "__" are not allowed for labels), for a name that
/// was used before another metric or with another type, for two samples with the same name and
/// labels, and for two labels of one name. The names of a summary or histogram include those of its
/// samples, which end with "_sum", "_count" and "_bucket". Nothing is written after an error.
/// Complexity: linear in the text, and logarithmic in the samples of a metric; a histogram is
/// copied first, 7.5 KiB on the stack.
class metrics_text {
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

  static constexpr std::string_view content_type = "text/plain; version=0.0.4; charset=utf-8";

  /// A count that only grows, until the program starts again. Its name ends with "_total" by
  /// convention.
  void add_counter(std::string_view name, std::string_view help, std::uint64_t value,
                   std::initializer_list<metric_label> labels = {});
  /// A value that rises and falls.
  template <class Number>
    requires std::integral<Number> || std::floating_point<Number>
  void add_gauge(std::string_view name, std::string_view help, Number value,
                 std::initializer_list<metric_label> labels = {}) {
    append_gauge(name, help, static_cast<double>(value), labels);
  }
  /// Durations, in seconds: the quantiles 0.5, 0.9, 0.99 and 0.999 of all of them, their sum, and
  /// their number. The label "quantile" is added.
  void add_summary(std::string_view name, std::string_view help, const histogram& durations,
                   std::initializer_list<metric_label> labels = {});

  /// Durations, in seconds: for each of `limits`, which must rise, the number of durations of at
  /// most that length, exact to 1/32 of the limit; their sum, and their number. The label "le" is
  /// added. Unlike the quantiles of a summary, the buckets of several programs can be added up.
  void add_histogram(std::string_view name, std::string_view help, const histogram& durations,
                     std::initializer_list<metric_label> labels = {},
                     std::span<const duration> limits = default_limits);

  [[nodiscard]] const std::string& text() const noexcept { return text_; }
  /// A response with the text so far.
  [[nodiscard]] http::response response() const;

 private:
  enum class kind { counter, gauge, summary, histogram };

  void append_gauge(std::string_view name, std::string_view help, double value,
                    std::initializer_list<metric_label> labels);
  void begin(std::string_view name, std::string_view help, kind type,
             std::initializer_list<metric_label> labels);
  void append_sample(std::string_view name, std::string_view suffix,
                     std::initializer_list<metric_label> labels, metric_label added_label,
                     std::string_view value);

  std::string text_;
  std::vector<std::string> names_;         // of the metrics and their samples, in their order
  std::string last_name_;                  // of the last metric
  std::set<std::string> last_label_sets_;  // of the last metric's samples
  kind last_kind_ = kind::counter;
};

}  // namespace gyre::http
