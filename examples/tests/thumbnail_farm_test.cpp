// SPDX-License-Identifier: Apache-2.0
// Runs examples/thumbnail_farm.cpp as processes, which are killed, with a PostgreSQL server, which
// is restarted.
#include <gyre/engines/postgres/session.hpp>
#include <gyre/engines/work/work_test_support.hpp>
#include <gyre/http/client.hpp>
#include <gyre/http/client_request.hpp>
#include <gyre/http/client_response.hpp>
#include <gyre/http/server_sent_event.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/io/input.hpp>
#include <gyre/io/process.hpp>
#include <gyre/task/as_result.hpp>
#include <gyre/task/scope.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/task.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace thumbnail_farm_test {
namespace {

using namespace std::chrono_literals;
using gyre::task;
using gyre::http::client_request;
using gyre::http::method;
using gyre::http::status;

using process = std::unique_ptr<gyre::io::process>;

std::string header(int width, int height) {
  return "P6\n" + std::to_string(width) + ' ' + std::to_string(height) + "\n255\n";
}

// A picture of boxes of 2 by 2 pixels, whose averages are the pixels of the thumbnail.
int colour_of_box(int number, int x, int y, int colour) {
  return (number * 31 + x * 7 + y * 5 + colour * 3) % 250;
}
std::string picture(int number) {
  std::string file = header(320, 32);
  for (int y = 0; y != 32; ++y) {
    for (int x = 0; x != 320; ++x) {
      for (int colour = 0; colour != 3; ++colour) {
        file += static_cast<char>(colour_of_box(number, x / 2, y / 2, colour) + 2 * (x % 2));
      }
    }
  }
  return file;
}
std::string thumbnail(int number) {
  std::string file = header(160, 16);
  for (int y = 0; y != 16; ++y) {
    for (int x = 0; x != 160; ++x) {
      for (int colour = 0; colour != 3; ++colour) {
        file += static_cast<char>(colour_of_box(number, x, y, colour) + 1);
      }
    }
  }
  return file;
}

struct ThumbnailFarm : gyre::test::work_test {
  gyre::http::client web{loop};
  std::string base;  // of URLs

  std::string database_url() const {
    return "postgresql://?user=postgres&dbname=postgres&host=" + server.folder();
  }
  process start(std::vector<std::string> arguments) {
    std::vector<std::string> command = {"setpriv", "--pdeathsig=KILL", "--", GYRE_THUMBNAIL_FARM};
    command.insert(command.end(), arguments.begin(), arguments.end());
    const gyre::io::process_options options{.output = gyre::io::stdio::pipe()};
    return std::make_unique<gyre::io::process>(loop, command, options);
  }
  task<process> start_server() {
    process made = start({"serve", database_url(), "127.0.0.1:0"});
    gyre::io::buffer line;
    co_await made->output().read_until(line, "\n");
    const std::string text(line.text());
    const std::string begin = "listening on ";
    EXPECT_TRUE(text.starts_with(begin)) << text;
    base = "http://" + text.substr(begin.size(), text.find('\n') - begin.size());
    // A second effect must be a second row instead of an error, and handlers can be held up.
    co_await db.execute_script(
        "alter table thumbnail drop constraint thumbnail_pkey;"
        "create function hold_up() returns trigger language plpgsql as $$"
        " begin perform pg_advisory_xact_lock_shared(42); return new; end $$;"
        "create trigger hold_up before insert on thumbnail"
        " for each row execute function hold_up()");
    co_return made;
  }
  process start_worker() { return start({"work", database_url()}); }
  static task<> kill(process& victim) {
    victim->kill(SIGKILL);
    co_await victim->wait();
  }
  /// Ends it by SIGTERM.
  static task<> end(process& program) {
    program->kill(SIGTERM);
    const gyre::io::exit_status ended = co_await program->wait();
    EXPECT_TRUE(ended.success());
  }

  /// Ends the web server. It would wait some seconds for a client that keeps its connection.
  task<> end_server(process& program) {
    web.close();
    co_await end(program);
  }

  /// Waits until the statement gives true, also while the database is away.
  task<> eventually(std::string condition) {
    const std::string statement = "select " + condition;
    while (true) {
      auto attempt = gyre::as_result(db.query_one<bool>(statement));
      const auto result = co_await std::move(attempt);
      if (result.has_value() && result.value()) co_return;
      co_await gyre::sleep_for(5ms);
    }
  }
  /// Until the session has ended, no handler can store a thumbnail.
  task<gyre::postgres::session> hold_up_handlers() {
    gyre::postgres::session own = co_await db.acquire_session();
    co_await own.execute("select pg_advisory_lock(42)");
    co_return own;
  }
  task<> wait_for_handlers(int count) {
    return eventually(std::to_string(count) +
                      " = (select count(*) from pg_locks"
                      " where not granted and locktype = 'advisory' and objid = 42)");
  }

  /// Sends the picture until it is accepted; returns its path.
  task<std::string> add(int number) {
    const std::string key = "picture " + std::to_string(number);
    while (true) {
      client_request upload(method::post, base + "/pictures");
      upload.set("Idempotency-Key", key).set_body("image/x-portable-pixmap", picture(number));
      auto attempt = gyre::as_result(web.send(std::move(upload)));
      auto result = co_await std::move(attempt);
      if (result.has_value() && result.value().status() == status::created) {
        std::string path(result.value().body());
        path.pop_back();
        co_return path;
      }
      co_await gyre::sleep_for(5ms);
    }
  }
  task<std::vector<std::string>> add_all(int count) {
    std::vector<std::string> paths(static_cast<std::size_t>(count));
    const auto add_one = [](ThumbnailFarm& test, int number, std::string& path) -> task<> {
      path = co_await test.add(number);
    };
    co_await gyre::with_scope([&](gyre::scope& running) -> task<> {
      for (int number = 0; number != count; ++number) {
        running.spawn(add_one(*this, number, paths[static_cast<std::size_t>(number)]));
      }
      co_return;
    });
    co_return paths;
  }
  task<status> status_of(method verb, std::string path, std::string body = "") {
    client_request request(verb, base + path);
    if (!body.empty()) request.set_body("image/x-portable-pixmap", body);
    const gyre::http::client_response answer = co_await web.send(std::move(request));
    co_return answer.status();
  }
  task<std::string> body_of(std::string path) {
    const gyre::http::client_response answer = co_await web.get(base + path);
    EXPECT_EQ(answer.status(), status::ok);
    co_return std::string(answer.body());
  }

  /// Follows the events of a picture to their end: "running {"percent": 100, "attempt": 1}".
  task<> follow(std::string path, std::vector<std::string>& seen) {
    gyre::http::client_response answer =
        co_await web.stream(client_request(method::get, base + path + "/events"));
    gyre::http::server_sent_event_reader reader;
    while (true) {
      const auto chunk = co_await answer.next_chunk();
      if (!chunk) co_return;
      gyre::io::input piece(*chunk);
      while (reader.next(piece).value()) {
        seen.push_back(std::string(reader.event().event) + ' ' + std::string(reader.event().data));
      }
    }
  }
  static task<> wait_for(const std::vector<std::string>& seen, std::string event) {
    while (std::ranges::find(seen, event) == seen.end()) co_await gyre::sleep_for(5ms);
  }
};

constexpr const char* shrunk = "running {\"percent\": 100, \"attempt\": 1}";

TEST_F(ThumbnailFarm, MakesEachThumbnailOnceThoughWorkersAndTheDatabaseDie) {
  run([](ThumbnailFarm& test) -> task<> {
    constexpr int count = 24;
    process web_server = co_await test.start_server();
    std::vector<process> workers;
    for (int n = 0; n != 3; ++n) workers.push_back(test.start_worker());

    std::vector<std::string> paths;
    {
      const gyre::postgres::session held_up = co_await test.hold_up_handlers();
      paths = co_await test.add_all(count);
      co_await test.wait_for_handlers(12);  // four of each worker
      co_await kill(workers[0]);
      co_await test.server.kill();
    }
    co_await test.server.start_again();
    workers[0] = test.start_worker();
    const std::vector<std::string> again = co_await test.add_all(count);
    EXPECT_EQ(again, paths);
    co_await kill(workers[1]);
    workers[1] = test.start_worker();
    co_await test.eventually("count(*) >= 12 from thumbnail");
    co_await kill(workers[2]);
    workers[2] = test.start_worker();
    co_await test.eventually("count(*) = 24 from work.job where state = 'finished'");

    const int made = co_await test.db.query_one<int>("select count(*) from thumbnail");
    EXPECT_EQ(made, count);
    for (int number = 0; number != count; ++number) {
      const std::string file =
          co_await test.body_of(paths[static_cast<std::size_t>(number)] + "/thumbnail");
      EXPECT_TRUE(file == thumbnail(number)) << "picture " << number;
    }
    const int attempts = co_await test.db.query_one<int>("select max(attempt) from work.job");
    EXPECT_GT(attempts, 1);
    for (process& worker : workers) co_await end(worker);
    co_await test.end_server(web_server);
  }(*this));
}

TEST_F(ThumbnailFarm, ShowsProgressAndCancels) {
  run([](ThumbnailFarm& test) -> task<> {
    process web_server = co_await test.start_server();
    process worker = test.start_worker();
    std::vector<std::string> seen_of_first;
    std::vector<std::string> seen_of_second;
    std::string first;
    std::string second;
    co_await gyre::with_scope([&](gyre::scope& running) -> task<> {
      gyre::postgres::session held_up = co_await test.hold_up_handlers();
      first = co_await test.add(1);
      second = co_await test.add(2);
      running.spawn(test.follow(first, seen_of_first));
      running.spawn(test.follow(second, seen_of_second));
      co_await wait_for(seen_of_first, shrunk);
      co_await wait_for(seen_of_second, shrunk);
      const status cancelled = co_await test.status_of(method::delete_, first + "/job");
      EXPECT_EQ(cancelled, status::accepted);
      co_await wait_for(seen_of_first, "cancelled {\"percent\": 100, \"attempt\": 1}");
      co_await held_up.execute("select pg_advisory_unlock(42)");
    });
    EXPECT_EQ(seen_of_second.back(), "finished {\"percent\": 100, \"attempt\": 1}");
    const std::string file = co_await test.body_of(second + "/thumbnail");
    EXPECT_TRUE(file == thumbnail(2));

    const status none = co_await test.status_of(method::get, first + "/thumbnail");
    EXPECT_EQ(none, status::not_found);
    const status ended = co_await test.status_of(method::delete_, second + "/job");
    EXPECT_EQ(ended, status::conflict);
    const status unknown = co_await test.status_of(method::get, "/pictures/999/events");
    EXPECT_EQ(unknown, status::not_found);
    const status no_number = co_await test.status_of(method::delete_, "/pictures/x/job");
    EXPECT_EQ(no_number, status::not_found);
    for (const char* wrong : {"GIF89a", "P6 2 2 255 ", "P6 0 0 255 ", "P6 99999999999 1 255 x"}) {
      const status refused = co_await test.status_of(method::post, "/pictures", wrong);
      EXPECT_EQ(refused, status::unprocessable_content) << wrong;
    }
    client_request strange(method::post, test.base + "/pictures");
    strange.set("Idempotency-Key", "\xff").set_body("image/x-portable-pixmap", picture(1));
    const gyre::http::client_response answer = co_await test.web.send(std::move(strange));
    EXPECT_EQ(answer.status(), status::bad_request);
    co_await end(worker);
    co_await test.end_server(web_server);
  }(*this));
}

TEST_F(ThumbnailFarm, FinishesItsJobsAndEventsOnSigterm) {
  run([](ThumbnailFarm& test) -> task<> {
    process web_server = co_await test.start_server();
    process worker = test.start_worker();
    std::vector<std::string> seen;
    co_await gyre::with_scope([&](gyre::scope& running) -> task<> {
      gyre::postgres::session held_up = co_await test.hold_up_handlers();
      const std::string path = co_await test.add(1);
      running.spawn(test.follow(path, seen));
      co_await test.wait_for_handlers(1);
      co_await wait_for(seen, shrunk);
      co_await test.end_server(web_server);  // with the stream of events, which is ended properly
      worker->kill(SIGTERM);
      co_await held_up.execute("select pg_advisory_unlock(42)");
      const gyre::io::exit_status ended = co_await worker->wait();
      EXPECT_TRUE(ended.success());
    });
    const auto states = co_await test.db.query<std::string>(
        "select concat_ws(' ', state, attempt, failures) from work.job");
    EXPECT_EQ(states, std::vector<std::string>{"finished 1 0"});
    const int left = co_await test.db.query_one<int>("select count(*) from work.worker");
    EXPECT_EQ(left, 0);
    const int made = co_await test.db.query_one<int>("select count(*) from thumbnail");
    EXPECT_EQ(made, 1);
  }(*this));
}

}  // namespace
}  // namespace thumbnail_farm_test
