// SPDX-License-Identifier: Apache-2.0
// The options and answers that both of gyre's contenders share.
#pragma once

#include <gyre/base/unique_fd.hpp>
#include <gyre/http/request.hpp>
#include <gyre/http/response.hpp>
#include <gyre/http/server_options.hpp>
#include <lab/harness/http/site.hpp>
#include <lab/harness/network/socket.hpp>

#include <fcntl.h>

namespace lab::http {

/// The defaults, with all their time limits, but for the limit of connections of one address: the
/// clients of the lab have few.
inline gyre::http::server_options gyre_options() {
  gyre::http::server_options options;
  options.tcp.connections_per_address = gyre::net::tcp_server_options::unlimited;
  return options;
}

inline gyre::http::response say_hello() { return gyre::http::response::borrowed(text_type, hello); }

inline gyre::http::response echo(gyre::http::request& request) {
  return gyre::http::response::borrowed(bytes_type, request.body());
}

inline gyre::http::response give_file(const site& site) {
  const int file = network::checked(fcntl(site.file, F_DUPFD_CLOEXEC, 0), "fcntl");
  return gyre::http::response::file(bytes_type, gyre::unique_fd(file), 0, file_bytes);
}

}  // namespace lab::http
