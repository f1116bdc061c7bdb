// SPDX-License-Identifier: Apache-2.0
// The Redis server of a run.
#pragma once

#include <lab/harness/engines/item_set.hpp>
#include <lab/harness/network/server_process.hpp>
#include <lab/harness/program.hpp>

#include <sys/types.h>

#include <string>
#include <vector>

namespace lab::engines {

/// A redis-server in a process of its own, which holds the items. It listens on a Unix socket and
/// stores nothing on disk. It ends with this object and with this process.
class redis_server {
 public:
  /// Errors: throws cannot_run without redis-server, and std::runtime_error.
  redis_server(const item_set& items, const std::vector<unsigned>& cpus);
  redis_server(const redis_server&) = delete;
  redis_server& operator=(const redis_server&) = delete;
  ~redis_server();

  /// The path of the socket.
  std::string socket() const { return folder_.path() + "/redis.sock"; }
  network::usage used() const { return used_by(process_); }

 private:
  void load(const item_set& items) const;

  scratch_folder folder_;
  pid_t process_;
};

}  // namespace lab::engines
