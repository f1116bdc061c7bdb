// SPDX-License-Identifier: Apache-2.0
// Makes thumbnails of pictures (PPM, P6) on any number of machines, by durable jobs on PostgreSQL.
// A picture that was accepted gets its thumbnail exactly once, whatever is killed meanwhile.
//
//     thumbnail_farm serve DATABASE [ADDRESS:PORT]  # DATABASE: postgresql://user:password@host/name
//     thumbnail_farm work DATABASE                  # three of them, say
//
//     (printf 'P6 1200 900 255\n'; head -c 3240000 /dev/urandom) > noise.ppm
//     curl -i --data-binary @noise.ppm -H 'Idempotency-Key: noise-1' localhost:8080/pictures
//     curl -N localhost:8080/pictures/1/events         # the states of its job, until the end
//     curl -X DELETE localhost:8080/pictures/1/job     # cancels it
//     curl -o small.ppm localhost:8080/pictures/1/thumbnail
#include <gyre/engines/postgres/client.hpp>
#include <gyre/engines/postgres/transaction.hpp>
#include <gyre/engines/work/error.hpp>
#include <gyre/engines/work/job.hpp>
#include <gyre/engines/work/migrate.hpp>
#include <gyre/engines/work/once.hpp>
#include <gyre/engines/work/queue.hpp>
#include <gyre/engines/work/worker.hpp>
#include <gyre/http/event_stream.hpp>
#include <gyre/http/server.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/pool/thread_pool.hpp>
#include <gyre/runtime/runtime.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/task.hpp>

#include <examples/support/service.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <exception>
#include <iostream>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

using namespace std::chrono_literals;
using gyre::http::response;
using gyre::http::status;
using gyre::work::job_id;

constexpr std::size_t max_picture = std::size_t{16} << 20;  // bytes
constexpr std::size_t thumbnail_side = 160;                 // pixels

// Reading and shrinking pictures.

struct picture {
  std::size_t width = 0;
  std::size_t height = 0;
  std::string_view pixels;  // three bytes each
};

// Reads "P6 WIDTH HEIGHT 255", with comments between the words, and the pixels after it.
picture parse_picture(std::string_view file) {
  const auto next_word = [&file] {
    constexpr std::string_view blanks = " \t\r\n";
    file.remove_prefix(std::min(file.find_first_not_of(blanks), file.size()));
    while (file.starts_with('#')) {
      file.remove_prefix(std::min(file.find('\n'), file.size()));
      file.remove_prefix(std::min(file.find_first_not_of(blanks), file.size()));
    }
    const std::string_view word = file.substr(0, file.find_first_of(blanks));
    file.remove_prefix(word.size());
    return word;
  };
  const auto next_number = [&next_word] {
    const std::string_view word = next_word();
    std::size_t number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    const bool is_valid = error == std::errc() && end == word.data() + word.size();
    return is_valid && number <= max_picture ? number : 0;
  };
  if (next_word() != "P6") throw std::runtime_error("send a picture in the format PPM (P6)");
  const std::size_t width = next_number();
  const std::size_t height = next_number();
  const bool is_8_bit = next_number() == 255;
  if (!file.empty()) file.remove_prefix(1);  // one blank precedes the pixels
  if (width == 0 || height == 0 || !is_8_bit || file.size() != width * height * 3) {
    throw std::runtime_error(
        "the picture needs 8 bits a colour, and as many bytes as it announces");
  }
  return {width, height, file};
}

// Each pixel of the thumbnail is the average of a box of the picture's pixels. Runs on the pool,
// where yield() gives other jobs a turn, and ends the coroutine when the job is to be stopped.
gyre::task<std::string> shrink(picture source, gyre::work::job& job) {
  const std::size_t longest = std::max({source.width, source.height, thumbnail_side});
  const std::size_t width = std::max<std::size_t>(source.width * thumbnail_side / longest, 1);
  const std::size_t height = std::max<std::size_t>(source.height * thumbnail_side / longest, 1);
  std::string file = "P6\n" + std::to_string(width) + ' ' + std::to_string(height) + "\n255\n";
  for (std::size_t y = 0; y != height; ++y) {
    const std::size_t top = y * source.height / height;
    const std::size_t bottom = (y + 1) * source.height / height;
    for (std::size_t x = 0; x != width; ++x) {
      const std::size_t left = x * source.width / width;
      const std::size_t right = (x + 1) * source.width / width;
      std::array<std::size_t, 3> sums{};
      std::size_t count = 0;
      for (std::size_t row = top; row != bottom; ++row) {
        for (std::size_t column = left; column != right; ++column, ++count) {
          for (std::size_t colour = 0; colour != 3; ++colour) {
            const std::size_t at = (row * source.width + column) * 3 + colour;
            sums[colour] += static_cast<unsigned char>(source.pixels[at]);
          }
        }
      }
      for (const std::size_t sum : sums) file += static_cast<char>(sum / std::max(count, 1UZ));
    }
    job.report_progress(static_cast<double>(y + 1) / static_cast<double>(height));
    co_await gyre::yield();
  }
  co_return file;
}

// The worker.

gyre::task<> make_thumbnail(gyre::work::job& job, gyre::postgres::client& db,
                            gyre::thread_pool& pool) {
  const auto file =
      co_await db.query_one<std::string>("select ppm from picture where id = $1", job.id());
  auto shrinking = gyre::on(pool, shrink(parse_picture(file), job));
  const std::string thumbnail = co_await std::move(shrinking);
  const auto store = [&](gyre::postgres::transaction& tx) -> gyre::task<> {
    const bool is_first = co_await gyre::work::once(tx, "thumbnail:" + std::to_string(job.id()));
    if (!is_first) co_return;
    co_await tx.execute("insert into thumbnail (id, ppm) values ($1, $2)", job.id(),
                        std::as_bytes(std::span(thumbnail)));
  };
  co_await db.transaction(store);
}

// SIGTERM stops run(), which then takes no more jobs and waits for those that run.
gyre::task<> work(gyre::runtime& rt, gyre::postgres::client_options database) {
  gyre::postgres::client db(rt.loops()[0], database);
  co_await gyre::work::migrate(db);
  // Jobs of a worker that was killed are taken over after the lease; 30 s are usual.
  gyre::work::worker worker(db, {.lease = 5s, .drain_timeout = 20s});
  const auto handler = [&](gyre::work::job& job) { return make_thumbnail(job, db, rt.pool()); };
  worker.handle("thumbnail", handler, {.max_running = 4});
  std::cout << "working" << std::endl;
  co_await worker.run();
}

// The server.

job_id id_of(const gyre::http::request& request) {
  const std::string text = request.param("id");
  job_id id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw gyre::http::http_error(status::not_found);
  }
  return id;
}

// Stores the picture and its job, or neither; the number of the job is also that of the picture. A
// client that got no answer repeats the request with the same key, which adds nothing then.
gyre::task<response> add_picture(gyre::http::request& upload, gyre::postgres::client& db,
                                 gyre::work::queue& jobs) {
  try {
    static_cast<void>(parse_picture(upload.body()));
  } catch (const std::runtime_error& error) {
    throw gyre::http::http_error(status::unprocessable_content, error.what());
  }
  const std::string_view key = upload.field("Idempotency-Key").value_or("");
  const auto is_printable = [](char each) { return each >= ' ' && each <= '~'; };
  if (key.size() > 200 || !std::ranges::all_of(key, is_printable)) {
    throw gyre::http::http_error(status::bad_request, "the key has 1 to 200 printable characters");
  }
  gyre::work::submitted_job job;
  const auto body = [&](gyre::postgres::transaction& tx) -> gyre::task<> {
    job = co_await jobs.submit(tx, "thumbnail", "", {.key = key, .keep = 24h});
    if (!job.is_new) co_return;
    co_await tx.execute("insert into picture (id, ppm) values ($1, $2)", job.id,
                        std::as_bytes(std::span(upload.body())));
  };
  co_await db.transaction(body);
  const std::string path = "/pictures/" + std::to_string(job.id);
  co_return response::text(path + '\n', status::created).set("Location", path);
}

gyre::task<> send_changes(gyre::work::queue& jobs, job_id id, gyre::http::event_writer& events) {
  auto changes = jobs.watch(id);
  while (const gyre::work::job_status* job = co_await changes.next()) {
    const int percent = static_cast<int>(job->progress.value_or(0) * 100);
    const std::string data = "{\"percent\": " + std::to_string(percent) +
                             ", \"attempt\": " + std::to_string(job->attempt) + '}';
    co_await events.send({.data = data, .event = name_of(job->state)});
  }
}

gyre::task<response> follow_job(gyre::http::request& request, gyre::work::queue& jobs) {
  const job_id id = id_of(request);
  const auto job = co_await jobs.status(id);
  if (!job) co_return status::not_found;
  co_return gyre::http::event_stream(
      [&jobs, id](gyre::http::event_writer& events) { return send_changes(jobs, id, events); });
}

gyre::task<response> cancel_job(gyre::http::request& request, gyre::postgres::client& db,
                                gyre::work::queue& jobs) {
  using gyre::work::cancel_result;
  const cancel_result result = co_await jobs.cancel(db, id_of(request));
  if (result == cancel_result::unknown) co_return status::not_found;
  if (result == cancel_result::had_ended) co_return status::conflict;
  co_return status::accepted;  // the events tell the end
}

gyre::task<response> get_thumbnail(gyre::http::request& request, gyre::postgres::client& db) {
  auto file = co_await db.query_optional<std::string>("select ppm from thumbnail where id = $1",
                                                      id_of(request));
  if (!file) co_return status::not_found;
  co_return response(status::ok, "image/x-portable-pixmap", std::move(*file));
}

gyre::task<> make_tables(gyre::postgres::client& db) {
  co_await gyre::work::migrate(db);
  co_await db.execute_script(
      "select pg_advisory_xact_lock(7);"  // servers that start together wait for each other
      "create table if not exists picture (id bigint primary key, ppm bytea not null);"
      "create table if not exists thumbnail (id bigint primary key, ppm bytea not null)");
}

gyre::task<> serve(gyre::runtime& rt, gyre::postgres::client_options database,
                   gyre::net::endpoint address) {
  gyre::loop& loop = rt.loops()[0];
  gyre::postgres::client db(loop, database);
  gyre::work::queue jobs(db);
  co_await make_tables(db);

  gyre::http::server server(loop, address);
  // While the database is away, or too many jobs wait, clients are asked to come again.
  server.use(service::ask_to_retry);
  const auto add = [&](gyre::http::request& upload) { return add_picture(upload, db, jobs); };
  server.post("/pictures", add, {.body_limit = max_picture});
  server.get("/pictures/{id}/events",
             [&](gyre::http::request& request) { return follow_job(request, jobs); });
  server.delete_("/pictures/{id}/job",
                 [&](gyre::http::request& request) { return cancel_job(request, db, jobs); });
  server.get("/pictures/{id}/thumbnail",
             [&](gyre::http::request& request) { return get_thumbnail(request, db); });
  co_await service::serve_until_shutdown(rt, server);
}

int main(int argc, char** argv) {
  const std::span<char*> arguments(argv, static_cast<std::size_t>(argc));
  const std::string_view role = argc > 1 ? arguments[1] : "";
  const bool serves = role == "serve" && (argc == 3 || argc == 4);
  if (!serves && !(role == "work" && argc == 3)) {
    std::cerr << "usage: thumbnail_farm serve DATABASE [ADDRESS:PORT]\n"
                 "       thumbnail_farm work DATABASE\n";
    return 2;
  }
  try {
    const auto database = gyre::postgres::client_options::parse(arguments[2]);
    const gyre::net::endpoint address(argc == 4 ? arguments[3] : "[::]:8080");
    // One loop, as the pool does the work. A worker's drain must fit into `drain_time`.
    return gyre::runtime::main({.loops = 1, .drain_time = 30s}, [&](gyre::runtime& rt) {
      return serves ? serve(rt, database, address) : work(rt, database);
    });
  } catch (const std::exception& error) {
    std::cerr << "thumbnail_farm: " << error.what() << '\n';
    return 2;
  }
}
