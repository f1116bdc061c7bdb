// SPDX-License-Identifier: Apache-2.0
// metrics_text: counts and durations as a page in Prometheus' text format, for monitoring systems.
//
//     gyre::http::metrics_text text;
//     text.add_counter("shop_orders_total", "Orders that were placed.", orders);
//     text.add_counter("shop_mails_total", "Mails by their end.", sent, {{"end", "sent"}});
//     text.add_counter("shop_mails_total", "Mails by their end.", refused, {{"end", "refused"}});
//     text.add_gauge("shop_carts", "Carts that are not empty now.", carts);
//     text.add_summary("shop_request_seconds", "Time until the response.", took);
//     gyre::http::response page = text.response();
#pragma once

#include <gyre/base/histogram.hpp>
#include <gyre/http/response.hpp>

#include <concepts>
#include <cstdint>
#include <initializer_list>
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
/// ("quantile" and names that begin with "__" are not allowed for labels), and for a name that was
/// used before another metric or with another type. Nothing is written then.
/// Complexity: linear in the text; a histogram is copied first, 7.5 KiB on the stack.
class metrics_text {
 public:
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
  /// Durations, in seconds: the quantiles 0.5, 0.9, 0.99 and 0.999 of all of them, their sum, which
  /// is off by less than 1 ns for each, and their number. The label "quantile" is added.
  void add_summary(std::string_view name, std::string_view help, const histogram& durations,
                   std::initializer_list<metric_label> labels = {});

  [[nodiscard]] const std::string& text() const noexcept { return text_; }
  /// A response with the text so far.
  [[nodiscard]] http::response response() const;

 private:
  enum class kind { counter, gauge, summary };

  void append_gauge(std::string_view name, std::string_view help, double value,
                    std::initializer_list<metric_label> labels);
  void begin(std::string_view name, std::string_view help, kind type,
             std::initializer_list<metric_label> labels);
  void append_sample(std::string_view name, std::string_view suffix,
                     std::initializer_list<metric_label> labels, std::string_view quantile,
                     std::string_view value);

  std::string text_;
  std::vector<std::string> names_;  // of the metrics, in their order
  kind last_kind_ = kind::counter;
};

}  // namespace gyre::http
