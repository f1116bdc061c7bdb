// SPDX-License-Identifier: Apache-2.0
// Servers for the examples of sockets, at addresses that nothing else uses.
#pragma once

#include <gyre/net/endpoint.hpp>
#include <gyre/net/passed_sockets.hpp>
#include <gyre/net/socket.hpp>

#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace header_examples {

/// Thrown to leave an endless loop once its first effect has been seen.
struct seen_enough {};

inline gyre::net::endpoint any_port() { return {gyre::net::ip_address::loopback_v4(), 0}; }

/// A socket on a free port, which stands in for an endpoint: a port that was free may be taken
/// before an example gets it.
class open_already {
 public:
  gyre::net::endpoint where() const { return opened_.local_endpoint(); }
  operator gyre::net::socket() { return std::move(opened_); }  // NOLINT: it is meant

 protected:
  explicit open_already(gyre::net::socket opened) : opened_(std::move(opened)) {}

 private:
  gyre::net::socket opened_;
};

class listening_already : public open_already {
 public:
  listening_already() : open_already(gyre::net::listening_socket(any_port())) {}
};

class bound_already : public open_already {
 public:
  bound_already() : open_already(bound()) {}

 private:
  static gyre::net::socket bound() {
    auto made = gyre::net::socket::open(any_port().family(), gyre::net::socket_type::datagram);
    made.bind(any_port());
    return made;
  }
};

/// A temporary directory, which is the current directory for the object's lifetime.
class own_directory {
 public:
  own_directory() : before_(std::filesystem::current_path()) {
    std::string made = (std::filesystem::temp_directory_path() / "gyre-XXXXXX").string();
    if (::mkdtemp(made.data()) == nullptr)
      throw std::system_error(errno, std::system_category(), "mkdtemp");
    path_ = made;
    std::filesystem::current_path(path_);
  }
  own_directory(const own_directory&) = delete;
  own_directory& operator=(const own_directory&) = delete;
  ~own_directory() {
    std::filesystem::current_path(before_);
    std::filesystem::remove_all(path_);
  }
  std::string file(std::string_view name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path before_;
  std::filesystem::path path_;
};

}  // namespace header_examples
