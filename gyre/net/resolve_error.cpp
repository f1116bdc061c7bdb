// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/resolve_error.hpp>

#include <string>

namespace gyre::net {
namespace {

class category final : public std::error_category {
 public:
  const char* name() const noexcept override { return "resolve"; }

  std::string message(int value) const override {
    switch (static_cast<resolve_errc>(value)) {
      case resolve_errc::host_not_found: return "host not found";
      case resolve_errc::no_data: return "the host has no such address";
      case resolve_errc::timed_out: return "the name servers did not answer in time";
      case resolve_errc::server_failure: return "the name server failed";
      case resolve_errc::refused: return "the name server refused to answer";
      case resolve_errc::bad_name: return "not a valid host name";
      case resolve_errc::bad_response: return "the name server's answer makes no sense";
      case resolve_errc::no_server: return "no name server gave an answer";
      case resolve_errc::service_not_found: return "service not found";
    }
    return "unknown error";
  }

  std::error_condition default_error_condition(int value) const noexcept override {
    if (value == static_cast<int>(resolve_errc::timed_out)) {
      return std::make_error_condition(std::errc::timed_out);
    }
    return {value, *this};
  }
};

}  // namespace

const std::error_category& resolve_category() noexcept {
  static const category one;
  return one;
}

}  // namespace gyre::net
