// SPDX-License-Identifier: Apache-2.0
// service_error: an error that a service replies.
//
//     throw gyre::nats::service_error(404, "there is no such order");
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace gyre::nats {

/// Thrown by a handler, to reply an error, and by call_service() for such a reply. The number is
/// the service's own; those of HTTP are usual.
class service_error : public std::runtime_error {
 public:
  service_error(int code, const std::string& text) : std::runtime_error(text), code_(code) {}

  [[nodiscard]] int code() const noexcept { return code_; }
  [[nodiscard]] const char* text() const noexcept { return what(); }

 private:
  int code_;
};

}  // namespace gyre::nats
