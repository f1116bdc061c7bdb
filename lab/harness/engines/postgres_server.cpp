// SPDX-License-Identifier: Apache-2.0
#include <lab/harness/engines/postgres_server.hpp>

#include <lab/harness/contender.hpp>
#include <lab/harness/engines/engine_process.hpp>
#include <lab/harness/engines/postgres_session.hpp>
#include <lab/harness/network/socket.hpp>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string_view>

namespace lab::engines {
namespace {

namespace fs = std::filesystem;

// The programs of the newest version that is installed; Debian keeps them out of PATH.
fs::path find_programs() {
  const fs::path root = "/usr/lib/postgresql";
  fs::path newest;
  int version = 0;
  std::error_code ignored;
  for (const fs::directory_entry& each : fs::directory_iterator(root, ignored)) {
    const int found = std::atoi(each.path().filename().c_str());
    if (found > version && fs::exists(each.path() / "bin/postgres") &&
        fs::exists(each.path() / "bin/initdb")) {
      version = found;
      newest = each.path() / "bin";
    }
  }
  if (newest.empty()) throw cannot_run("PostgreSQL is not installed: run tools/setup test");
  return newest;
}

}  // namespace

postgres_server::postgres_server(const item_set& items, const std::vector<unsigned>& cpus,
                                 const std::vector<std::string>& settings) {
  const fs::path programs = find_programs();
  if (geteuid() == 0) {
    if (!has_user(user)) throw cannot_run("there is no user \"postgres\" to run PostgreSQL as");
    owner_ = user;
    give_to_user(folder_.path(), owner_);
  }
  const std::string version = programs.parent_path().filename();
  const fs::path kept = fs::temp_directory_path() /
                        ("gyre-lab-postgresql-" + version + '-' + std::to_string(geteuid()));
  fs::create_directory(kept);
  struct stat status{};
  network::checked(lstat(kept.c_str(), &status), "lstat");
  if (status.st_uid != geteuid() || !S_ISDIR(status.st_mode)) {
    throw std::runtime_error(kept.string() + " belongs to another user");
  }
  lock_ =
      network::checked(open((kept / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600), "open");
  network::checked(flock(lock_, LOCK_EX), "flock");

  const std::string log = folder_.path() + "/log";
  const fs::path data = kept / "data";
  if (!fs::exists(data)) {
    const fs::path fresh = folder_.path() + "/data";
    const int exit_status = run_program(
        {.words = {programs / "initdb", "--pgdata", fresh, "--username", user, "--auth", "trust",
                   "--encoding", "UTF8", "--no-locale", "--no-sync", "--no-instructions"},
         .user = owner_,
         .output = log});
    if (exit_status != 0)
      throw std::runtime_error("initdb failed, status " + std::to_string(exit_status));
    fs::rename(fresh, data);
  }
  std::vector<std::string> words = {programs / "postgres", "-D", data, "-k", folder_.path()};
  for (const std::string_view fixed :
       {"listen_addresses=", "fsync=off", "synchronous_commit=off", "full_page_writes=off",
        "autovacuum=off", "jit=off", "max_connections=200", "log_min_messages=fatal"}) {
    words.emplace_back("-c");
    words.emplace_back(fixed);
  }
  for (const std::string& each : settings) {
    words.emplace_back("-c");
    words.push_back(each);
  }
  process_ = start_program(
      {.words = words, .cpus = cpus, .user = owner_, .output = log, .death_signal = SIGQUIT});
  await_ready(process_, "postgres", log, [this] { postgres_session(host(), database); });
  try {
    load(items);
  } catch (...) {
    end_process(process_, SIGQUIT);
    throw;
  }
}

postgres_server::~postgres_server() {
  end_process(process_, SIGINT);  // "fast": ends the sessions, and writes its files
  close(lock_);
}

void postgres_server::load(const item_set& items) const {
  if (items.count() == 0) return;
  postgres_session session(host(), database);
  session.run(
      "set client_min_messages = error; drop table if exists item;"
      "create table item (id integer primary key, name text not null)");
  std::string insert = "insert into item values ";
  for (std::uint32_t item = 0; item < items.count(); ++item) {
    if (item > 0) insert += ',';
    insert += '(' + std::to_string(item) + ",'" + items.value(item) + "')";
  }
  session.run(insert);
  session.run("vacuum analyse item");
}

}  // namespace lab::engines
