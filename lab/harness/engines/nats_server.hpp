// SPDX-License-Identifier: Apache-2.0
// The NATS server of a run, and the service that replies to its requests.
#pragma once

#include <lab/harness/network/server_process.hpp>
#include <lab/harness/program.hpp>

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace lab::engines {

/// A nats-server in a process of its own, on a port of 127.0.0.1 that it chooses, and another
/// process that sends the body of each request back. Both end with this object and with this
/// process.
class nats_server {
 public:
  /// The subject of requests that are answered.
  static constexpr const char* subject = "lab.echo";

  /// Only while this process has one thread.
  /// Errors: throws cannot_run without nats-server, and std::runtime_error.
  explicit nats_server(const std::vector<unsigned>& cpus);
  nats_server(const nats_server&) = delete;
  nats_server& operator=(const nats_server&) = delete;
  ~nats_server();

  /// Such as "nats://127.0.0.1:4222".
  std::string url() const { return "nats://127.0.0.1:" + std::to_string(port_); }
  /// The resources of the server, without those of the service.
  network::usage used() const { return used_by(process_); }

 private:
  scratch_folder folder_;
  pid_t process_;
  std::uint16_t port_ = 0;
  pid_t service_ = -1;
};

}  // namespace lab::engines
