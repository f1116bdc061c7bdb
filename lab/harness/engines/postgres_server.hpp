// SPDX-License-Identifier: Apache-2.0
// The PostgreSQL server of a run.
#pragma once

#include <lab/harness/engines/item_set.hpp>
#include <lab/harness/network/server_process.hpp>
#include <lab/harness/program.hpp>

#include <sys/types.h>

#include <string>
#include <vector>

namespace lab::engines {

/// PostgreSQL in processes of its own, with a table of the items:
///
///     create table item (id integer primary key, name text not null)
///
/// It listens on a Unix socket, and does not wait for its disk. Its databases, which take a second
/// to make, stay in a folder of temporary files for the next run; two runs wait for each other. As
/// PostgreSQL refuses to run as root, it runs as the user "postgres" then. It ends with this object
/// and with this process.
class postgres_server {
 public:
  /// `items`: if there are none, there is no table. `settings`: further ones, as "jit=on".
  /// Errors: throws cannot_run without PostgreSQL, and std::runtime_error.
  postgres_server(const item_set& items, const std::vector<unsigned>& cpus,
                  const std::vector<std::string>& settings = {});
  postgres_server(const postgres_server&) = delete;
  postgres_server& operator=(const postgres_server&) = delete;
  ~postgres_server();

  /// The folder of its socket, which libpq takes as a host.
  const std::string& host() const { return folder_.path(); }
  static constexpr const char* user = "postgres";
  static constexpr const char* database = "postgres";
  network::usage used() const { return used_by(process_); }

 private:
  void load(const item_set& items) const;

  scratch_folder folder_;
  std::string owner_;  // the user that the server runs as; empty: this process's
  int lock_ = -1;      // of the databases' folder
  pid_t process_ = -1;
};

}  // namespace lab::engines
