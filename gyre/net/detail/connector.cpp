// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/connector.hpp>

#include <gyre/io/error.hpp>
#include <gyre/net/detail/errors.hpp>

#include <stdexcept>

namespace gyre::net::detail {

task<tcp_stream> server_address::connect() {
  const bool needs_resolver = server_.is_name() && server_.known_endpoints().empty();
  if (!needs_resolver) return net::connect(server_, options_);
  if (!names_) names_.emplace(loop_);
  return net::connect(*names_, server_, options_);
}

std::string text_of_tcp(const host_port& server) {
  std::string text = server.to_string();
  if (server.direct().is_unix()) {
    throw std::invalid_argument(
        text.append(": give a function that awaits connect_unix(), instead of a server"));
  }
  return text;
}

void throw_no_connection() {
  throw std::logic_error(
      "gyre::net: the function that connects, or the handshake, gave a null pointer; let it throw "
      "if "
      "there is no connection");
}

void throw_moved_from(const char* class_name) {
  fail(make_error_code(io::errc::not_open), class_name);
}

std::exception_ptr error_of_closed(std::exception_ptr error, const std::string& class_name) noexcept
    try {
  std::rethrow_exception(error);
} catch (const std::system_error& failure) {
  if (failure.code() != std::make_error_code(std::errc::operation_canceled)) return error;
  try {
    return std::make_exception_ptr(
        std::system_error(make_error_code(io::errc::closed), class_name));
  } catch (...) {
    return error;
  }
} catch (...) {
  return error;
}

}  // namespace gyre::net::detail
