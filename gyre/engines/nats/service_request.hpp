// SPDX-License-Identifier: Apache-2.0
// service_request, service_response: what a service's handler gets and returns.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/duration.hpp>
#include <gyre/engines/nats/headers.hpp>
#include <gyre/engines/nats/message.hpp>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace gyre::nats {

/// A request to a service.
///
/// Lifetime: until the handler's task has ended.
class service_request {
 public:
  service_request(message&& content, steady_time deadline) noexcept
      : content_(std::move(content)), deadline_(deadline) {}

  std::string_view subject() const noexcept { return content_.subject(); }
  std::string_view text() const noexcept { return content_.text(); }  ///< the payload
  std::span<const std::byte> bytes() const noexcept { return content_.bytes(); }
  header_view headers() const noexcept { return content_.headers(); }
  /// When the handler is asked to stop: the earlier one of the endpoint's limit and the one of the
  /// client, if it has sent its own.
  steady_time deadline() const noexcept { return deadline_; }

 private:
  message content_;
  steady_time deadline_;
};

/// The reply to a request: a payload, with or without headers.
class service_response {
 public:
  service_response() noexcept = default;
  template <std::convertible_to<std::string> Text>
  service_response(Text&& text) : text_(std::forward<Text>(text)) {}
  service_response(std::string text, nats::headers headers) noexcept
      : text_(std::move(text)), headers_(std::move(headers)) {}

  const std::string& text() const noexcept { return text_; }
  const nats::headers& headers() const noexcept { return headers_; }

 private:
  std::string text_;
  nats::headers headers_;
};

}  // namespace gyre::nats
