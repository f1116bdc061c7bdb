// SPDX-License-Identifier: Apache-2.0
// metrics_text: counts and durations as a response in a format of Prometheus, for monitoring
// systems.
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

#include <gyre/http/response.hpp>
#include <gyre/metrics/exposition.hpp>

namespace gyre::http {

/// A metrics::exposition that makes a response. A program with many metrics keeps them in a
/// metrics::registry, which metrics_handler() serves.
class metrics_text : public metrics::exposition {
 public:
  using exposition::exposition;

  /// A response with the text so far.
  [[nodiscard]] http::response response() const {
    return http::response(status::ok, content_type(), text());
  }
};

}  // namespace gyre::http
