// SPDX-License-Identifier: Apache-2.0
// The servers of the data experiments, which tools/setup installs.
#include <lab/harness/contender.hpp>
#include <lab/harness/engines/engine_process.hpp>
#include <lab/harness/engines/item_set.hpp>
#include <lab/harness/engines/nats_server.hpp>
#include <lab/harness/engines/postgres_server.hpp>
#include <lab/harness/engines/postgres_session.hpp>
#include <lab/harness/engines/redis_server.hpp>
#include <lab/harness/program.hpp>

#include <gtest/gtest.h>

#include <unistd.h>

#include <charconv>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>

namespace lab::engines {
namespace servers_test {
namespace {

const item_set& items() {
  static const item_set made(100, 50);
  return made;
}

std::string ask_redis(const std::string& socket, std::uint32_t item) {
  bare_connection connection = bare_connection::to_unix(socket);
  connection.send("GET " + std::string(items().key(item)) + "\r\n");
  EXPECT_EQ(connection.receive_line(), "$50");
  return connection.receive_line();
}

TEST(RedisServer, HoldsTheItemsAndEndsWithTheObject) {
  std::string socket;
  {
    const redis_server server(items(), {});
    socket = server.socket();
    for (const std::uint32_t item : {0U, 50U, 99U}) {
      EXPECT_TRUE(items().is_value(item, ask_redis(socket, item)));
    }
    EXPECT_GT(server.used().cpu_seconds, 0);
    EXPECT_GT(server.used().memory_bytes, 0);
  }
  EXPECT_FALSE(std::filesystem::exists(std::filesystem::path(socket).parent_path()));
}

TEST(NatsServer, ServiceSendsBodiesBack) {
  const nats_server server({});
  const std::string url = server.url();
  std::uint16_t port = 0;
  const char* const digits = url.data() + url.rfind(':') + 1;
  ASSERT_EQ(std::from_chars(digits, url.data() + url.size(), port).ec, std::errc());
  bare_connection connection = bare_connection::to_port(port);
  EXPECT_TRUE(connection.receive_line().starts_with("INFO "));
  std::string requests = "CONNECT {\"verbose\":false}\r\nSUB inbox.* 1\r\n";
  for (std::uint32_t item = 0; item < items().count(); ++item) {
    requests +=
        "PUB lab.echo inbox." + std::to_string(item) + " 50\r\n" + items().value(item) + "\r\n";
  }
  connection.send(requests);
  for (std::uint32_t item = 0; item < items().count(); ++item) {
    EXPECT_EQ(connection.receive_line(), "MSG inbox." + std::to_string(item) + " 1 50");
    EXPECT_EQ(connection.receive_line(), items().value(item));
  }
  EXPECT_GT(server.used().cpu_seconds, 0);
}

TEST(PostgresServer, StartsAgainOnItsDatabases) {
  for (int run = 0; run < 2; ++run) {
    const postgres_server server(items(), {});
    EXPECT_TRUE(std::filesystem::exists(server.host() + "/.s.PGSQL.5432"));
    EXPECT_GT(server.used().memory_bytes, 0) << "of several processes";
  }
}

TEST(PostgresServer, TakesSettings) {
  const postgres_server server(item_set(0, item_set::smallest_value), {}, {"work_mem=7MB"});
  postgres_session session(server.host(), postgres_server::database);
  EXPECT_EQ(session.query("show work_mem"), "7MB");
}

TEST(PostgresSession, GivesTheFirstColumnOfTheLastRow) {
  const postgres_server server(items(), {});
  postgres_session session(server.host(), postgres_server::database);
  EXPECT_EQ(session.query("select id, name from item order by id"), "99");
  EXPECT_EQ(session.query_number("select 1; select 2.5"), 2.5);
  EXPECT_EQ(session.query("select null"), "");
  EXPECT_EQ(session.query("select from item where id = 0"), "");
  EXPECT_EQ(session.query("select id from item where id < 0"), "");
  EXPECT_THROW(session.query_number("select 'word'"), std::runtime_error);
}

TEST(PostgresSession, ErrorsOfTheServerAreThrown) {
  const postgres_server server(items(), {});
  EXPECT_THROW(postgres_session(server.host(), "no_such_database"), std::runtime_error);
  postgres_session session(server.host(), postgres_server::database);
  try {
    session.run("select no_such_column from item");
    FAIL() << "is executed";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("no_such_column"), std::string::npos);
  }
}

TEST(EngineProcess, ProgramThatIsNotInstalledIsRefused) {
  const scratch_folder folder;
  const std::string log = folder.path() + "/log";
  const pid_t process = start_program({.words = {"gyre-no-such-program"}, .output = log});
  const auto never = [] { throw std::runtime_error("not ready"); };
  EXPECT_THROW(await_ready(process, "gyre-no-such-program", log, never), cannot_run);
}

TEST(EngineProcess, ProgramThatEndsSaysWhy) {
  const scratch_folder folder;
  const std::string log = folder.path() + "/log";
  const pid_t process =
      start_program({.words = {"sh", "-c", "echo the port is taken; exit 1"}, .output = log});
  const auto never = [] { throw std::runtime_error("not ready"); };
  try {
    await_ready(process, "sh", log, never);
    FAIL() << "is ready";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("the port is taken"), std::string::npos);
  }
}

TEST(Program, UsageCountsChildren) {
  // The child counts for some seconds at most, and its parent only waits.
  const char* const script =
      "trap 'kill $!' TERM;"
      "(n=0; while [ $n -lt 5000000 ]; do n=$((n + 1)); done) & wait";
  const pid_t process = start_program({.words = {"sh", "-c", script}});
  while (used_by(process).cpu_seconds < 0.1) std::this_thread::yield();
  end_process(process, SIGTERM);
}

TEST(Program, UsageCountsEndedChildren) {
  // The child counts and ends; its parent then waits for a program that sleeps.
  const char* const script =
      "trap 'kill $!' TERM;"
      "(n=0; while [ $n -lt 100000 ]; do n=$((n + 1)); done); sleep 1000 & wait";
  const pid_t process = start_program({.words = {"sh", "-c", script}});
  const std::string children =
      "/proc/" + std::to_string(process) + "/task/" + std::to_string(process) + "/children";
  const auto sleeps = [&children] {
    pid_t child = 0;
    std::string name;
    std::ifstream(children) >> child;
    std::ifstream("/proc/" + std::to_string(child) + "/comm") >> name;
    return name == "sleep";
  };
  while (!sleeps()) std::this_thread::yield();
  EXPECT_GT(used_by(process).cpu_seconds, 0.02);
  end_process(process, SIGTERM);
}

TEST(Program, RunProgramGivesTheStatus) {
  EXPECT_EQ(run_program({.words = {"sh", "-c", "exit 3"}}), 3);
  EXPECT_EQ(run_program({.words = {"sh", "-c", "kill -9 $$"}}), -1);
  EXPECT_EQ(run_program({.words = {"gyre-no-such-program"}}), 127);
}

}  // namespace
}  // namespace servers_test
}  // namespace lab::engines
