// SPDX-License-Identifier: Apache-2.0
#include <lab/harness/engines/postgres_server.hpp>

#include <lab/harness/contender.hpp>
#include <lab/harness/engines/engine_process.hpp>
#include <lab/harness/network/socket.hpp>

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstring>
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

// A connection that speaks as little of the protocol as the lab needs.
class bare_session {
 public:
  explicit bare_session(const std::string& socket) : connection_(bare_connection::to_unix(socket)) {
    std::string startup;
    append_number(startup, 3 << 16);  // the protocol's version 3.0
    for (const char* const word :
         {"user", postgres_server::user, "database", postgres_server::database}) {
      startup.append(word).push_back('\0');
    }
    startup.push_back('\0');
    send("", startup);
    await_ready();
  }

  void run(const std::string& statements) {
    send("Q", statements + '\0');
    await_ready();
  }

 private:
  static void append_number(std::string& bytes, std::uint32_t number) {
    const std::uint32_t on_network = htonl(number);
    bytes.append(reinterpret_cast<const char*>(&on_network), sizeof on_network);
  }

  void send(std::string message, const std::string& body) {
    append_number(message, static_cast<std::uint32_t>(body.size() + sizeof(std::uint32_t)));
    connection_.send(message + body);
  }

  // Reads up to ReadyForQuery.
  void await_ready() {
    constexpr char error = 'E';
    constexpr char ready = 'Z';
    for (char kind = 0; kind != ready;) {
      const std::string head = connection_.receive_exactly(1 + sizeof(std::uint32_t));
      kind = head[0];
      std::uint32_t size = 0;
      std::memcpy(&size, head.data() + 1, sizeof size);
      std::string body = connection_.receive_exactly(ntohl(size) - sizeof size);
      if (kind != error) continue;
      std::ranges::replace(body, '\0', ' ');
      throw std::runtime_error("PostgreSQL: " + body);
    }
  }

  bare_connection connection_;
};

}  // namespace

postgres_server::postgres_server(const item_set& items, const std::vector<unsigned>& cpus) {
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
  process_ = start_program({.words = {programs / "postgres",
                                      "-D",
                                      data,
                                      "-k",
                                      folder_.path(),
                                      "-c",
                                      "listen_addresses=",
                                      "-c",
                                      "fsync=off",
                                      "-c",
                                      "synchronous_commit=off",
                                      "-c",
                                      "full_page_writes=off",
                                      "-c",
                                      "autovacuum=off",
                                      "-c",
                                      "jit=off",
                                      "-c",
                                      "max_connections=200",
                                      "-c",
                                      "log_min_messages=fatal"},
                            .cpus = cpus,
                            .user = owner_,
                            .output = log,
                            .death_signal = SIGQUIT});
  await_ready(process_, "postgres", log,
              [this] { bare_session(folder_.path() + "/.s.PGSQL.5432"); });
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
  bare_session session(folder_.path() + "/.s.PGSQL.5432");
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
