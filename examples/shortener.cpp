// SPDX-License-Identifier: Apache-2.0
// Shortens URLs. The links are in PostgreSQL; Redis keeps those that are in use.
//
//     shortener --database postgresql://app:secret@localhost/app --redis localhost:6379
//         --certificate server.pem --key server.key --listen :8443
//
//     curl -k -d https://example.org/a/long/path https://localhost:8443/links   # /x0Yz81Qa
//     curl -k -i https://localhost:8443/x0Yz81Qa                 # 302, to the long one
//     curl -k https://localhost:8443/links/x0Yz81Qa              # "hits": 1, a second later
//     curl -k https://localhost:8443/health                      # 200, or 503 without PostgreSQL
//     curl -k https://localhost:8443/metrics                     # for Prometheus
//
// - However many requests need a link at the same time, one looks it up, in Redis and then in
//   PostgreSQL ("single flight").
// - Without Redis, or while it is down, links come from PostgreSQL. Without PostgreSQL, requests
//   that need it get 503. Both are found again by themselves.
// - Hits are counted in memory, and added to the table each second and at the end. A crash loses
//   those of its last second.
#include <gyre/base/histogram.hpp>
#include <gyre/engines/postgres/client.hpp>
#include <gyre/engines/redis/client.hpp>
#include <gyre/http/access_log.hpp>
#include <gyre/http/metrics_text.hpp>
#include <gyre/http/server.hpp>
#include <gyre/http/url.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/host_port.hpp>
#include <gyre/runtime/runtime.hpp>
#include <gyre/runtime/sharded.hpp>
#include <gyre/sync/single_flight.hpp>
#include <gyre/task/finally.hpp>
#include <gyre/task/shielded.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/with_timeout.hpp>
#include <gyre/tls/tls_context.hpp>
#include <gyre/tls/transport.hpp>

#include <examples/support/service.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <optional>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

namespace http = gyre::http;
using namespace std::chrono_literals;
using http::response;
using http::status;

struct settings {
  gyre::net::endpoint address = ":8443";
  std::optional<gyre::postgres::client_options> database;
  std::optional<gyre::net::host_port> redis;
  std::optional<std::string> certificate;
  std::optional<std::string> key;
};

using optional_text = std::optional<std::string>;
using lookups = gyre::single_flight<std::string, optional_text>;

constexpr const char* schema =
    "select pg_advisory_xact_lock(6731);"  // one process at a time makes the table
    "create table if not exists link (code text primary key, target text not null, "
    "hits bigint not null default 0, created timestamptz not null default now())";
const gyre::postgres::statement find_link("select target from link where code = $1",
                                          {.is_idempotent = true});
const gyre::postgres::statement describe_link(
    "select json_build_object('target', target, 'hits', hits, 'created', created)::text "
    "from link where code = $1",
    {.is_idempotent = true});
const gyre::postgres::statement add_link(
    "insert into link (code, target) values ($1, $2) on conflict do nothing");
const gyre::postgres::statement add_hits(
    "update link set hits = link.hits + added.hits "
    "from unnest($1::text[], $2::bigint[]) as added (code, hits) where link.code = added.code");
const gyre::postgres::statement check_database("select 1", {.is_idempotent = true});

constexpr std::size_t max_target = 2048;
constexpr std::size_t code_size = 8;
constexpr std::string_view code_characters =
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

std::string random_code() {
  std::random_device source;  // not to be guessed
  std::uniform_int_distribution<std::size_t> index(0, code_characters.size() - 1);
  std::string code(code_size, ' ');
  for (char& each : code) each = code_characters[index(source)];
  return code;
}

bool is_code(std::string_view text) {
  return text.size() == code_size &&
         text.find_first_not_of(code_characters) == std::string_view::npos;
}

struct counts {
  std::uint64_t cache_hits = 0;
  std::uint64_t cache_misses = 0;
  std::uint64_t cache_failures = 0;
  std::uint64_t database_lookups = 0;
  std::uint64_t statements = 0;
  std::uint64_t dropped_hits = 0;
  gyre::histogram took;

  counts operator+(const counts& other) const {
    counts sum = *this;
    sum.cache_hits += other.cache_hits;
    sum.cache_misses += other.cache_misses;
    sum.cache_failures += other.cache_failures;
    sum.database_lookups += other.database_lookups;
    sum.statements += other.statements;
    sum.dropped_hits += other.dropped_hits;
    sum.took.merge(other.took);
    return sum;
  }
};

// The part of a loop in the service: its connections, and its counts. All loops share `flights`.
class link_store {
 public:
  link_store(gyre::event_loop& loop, const settings& options, lookups* flights)
      : database_(loop, options.database.value()), flights_(*flights) {
    if (!options.redis) return;
    cache_.emplace(loop, *options.redis,
                   gyre::redis::client_options{
                       .max_connect_attempts = 1, .connect_timeout = 100ms, .reply_timeout = 1s});
  }

  gyre::task<std::string> add(std::string target) {
    for (;;) {
      std::string code = random_code();
      const auto added = co_await database_.execute(add_link, code, target);
      if (added == 1) co_return code;  // the code was not taken
    }
  }

  // The target of a link, whose hits this counts.
  gyre::task<optional_text> visit(std::string code) {
    auto look_up_here = [this](const std::string& wanted) { return look_up(wanted); };
    optional_text target = co_await flights_.run(code, look_up_here);
    if (target) count_hit(code);
    co_return target;
  }

  gyre::task<optional_text> describe(std::string code) {
    return database_.query_optional<std::string>(describe_link, std::move(code));
  }
  gyre::task<> check() { co_await database_.execute(check_database); }

  gyre::task<> write_hits() {
    if (hits_.empty()) co_return;
    const auto taken = std::exchange(hits_, {});
    std::vector<std::string> codes;
    std::vector<std::int64_t> numbers;
    for (const auto& [code, number] : taken) {
      codes.push_back(code);
      numbers.push_back(number);
    }
    auto add_all = [&](gyre::postgres::transaction& tx) -> gyre::task<> {
      co_await tx.execute(add_hits, codes, numbers);
    };
    try {
      co_await database_.transaction(add_all);
    } catch (const std::system_error& error) {
      std::cerr << "hits are not written: " << error.what() << '\n';
      // They are added by a later call, unless that might count them twice.
      if (error.code() == gyre::postgres::errc::commit_unknown) co_return;
      for (const auto& [code, number] : taken) hits_[code] += number;
    }
  }

  // The shards call this at the end, when the server has stopped.
  gyre::task<> stop() {
    bool is_written = false;
    try {
      co_await gyre::with_timeout(write_hits(), 2s);
      is_written = hits_.empty();
    } catch (const std::system_error&) {  // NOLINT(bugprone-empty-catch): too late
    }
    if (!is_written) std::cerr << "the last hits are lost: the database is out of reach\n";
  }

  void record(std::chrono::nanoseconds duration) { counts_.took.record(duration); }
  counts read_counts() const {
    counts current = counts_;
    current.statements = database_.metrics().statements;
    return current;
  }

 private:
  static constexpr std::size_t max_codes_with_hits = 100'000;

  // Runs once at a time for a code, on the loop whose request came first.
  gyre::task<optional_text> look_up(std::string code) {
    optional_text target = co_await read_cache(code);
    if (target) co_return target;
    ++counts_.database_lookups;
    target = co_await database_.query_optional<std::string>(find_link, code);
    if (target) co_await write_cache(code, *target);
    co_return target;
  }

  // Redis is a cache only: a lookup goes on without it.
  gyre::task<optional_text> read_cache(std::string code) {
    if (!cache_) co_return std::nullopt;
    try {
      auto reading = cache_->call_idempotent<optional_text>("GET", "link:" + code);
      optional_text target = co_await gyre::with_timeout(std::move(reading), 100ms);
      ++(target ? counts_.cache_hits : counts_.cache_misses);
      co_return target;
    } catch (const std::system_error&) {
      ++counts_.cache_failures;
    }
    co_return std::nullopt;
  }
  gyre::task<> write_cache(std::string code, std::string target) {
    if (!cache_) co_return;
    try {
      auto writing = cache_->call_idempotent<void>("SET", "link:" + code, target, "EX", 3600);
      co_await gyre::with_timeout(std::move(writing), 100ms);
    } catch (const std::system_error&) {
      ++counts_.cache_failures;
    }
  }

  // While the database is out of reach, memory is bounded.
  void count_hit(const std::string& code) {
    if (hits_.size() < max_codes_with_hits || hits_.contains(code)) {
      ++hits_[code];
    } else {
      ++counts_.dropped_hits;
    }
  }

  gyre::postgres::client database_;
  std::optional<gyre::redis::client> cache_;
  lookups& flights_;
  std::unordered_map<std::string, std::int64_t> hits_;
  counts counts_;
};

using link_stores = gyre::sharded<link_store>;

gyre::task<response> add(link_stores& links, http::request& request) {
  const auto target = http::url::parse(request.body());
  if (!target || (target->scheme() != "http" && target->scheme() != "https")) {
    throw http::http_error(status::bad_request,
                           "The body must be a URL that begins with http:// or https://.");
  }
  const std::string code = co_await links.local().add(std::string(request.body()));
  response created = response::text("/" + code + "\n", status::created);
  created.set("Location", "/links/" + code);
  co_return created;
}

gyre::task<response> follow(link_stores& links, http::request& request) {
  std::string code = request.param("code");
  if (!is_code(code)) co_return response(status::not_found);
  const optional_text target = co_await links.local().visit(std::move(code));
  if (!target) co_return response(status::not_found);
  co_return response::redirect(*target).set("Cache-Control", "no-store");  // so that hits are seen
}

gyre::task<response> describe(link_stores& links, http::request& request) {
  std::string code = request.param("code");
  if (!is_code(code)) co_return response(status::not_found);
  optional_text text = co_await links.local().describe(std::move(code));
  if (!text) co_return response(status::not_found);
  co_return response::json(std::move(*text));
}

gyre::task<response> check_health(link_stores& links) {
  co_await links.local().check();
  co_return response::text("ok\n");
}

gyre::task<response> show_metrics(link_stores& links, const http::server& server) {
  const counts none;
  const counts sum = co_await links.map_reduce(&link_store::read_counts, none);
  const http::server_metrics served = server.metrics();
  http::metrics_text text;
  text.add_counter("shortener_requests_total", "Requests.", served.requests);
  static constexpr const char* responses = "Responses by the class of their status.";
  const auto add_responses = [&](std::string_view kind, std::uint64_t number) {
    text.add_counter("shortener_responses_total", responses, number, {{"class", kind}});
  };
  add_responses("2xx", served.successes);
  add_responses("3xx", served.redirections);
  add_responses("4xx", served.client_errors);
  add_responses("5xx", served.server_errors);
  text.add_gauge("shortener_active_requests", "Requests without a response now.", served.active);
  text.add_summary("shortener_request_seconds", "Time until the response.", sum.took);
  static constexpr const char* reads = "Lookups in Redis by their result.";
  const auto add_reads = [&](std::string_view result, std::uint64_t number) {
    text.add_counter("shortener_cache_reads_total", reads, number, {{"result", result}});
  };
  add_reads("hit", sum.cache_hits);
  add_reads("miss", sum.cache_misses);
  add_reads("failure", sum.cache_failures);
  text.add_counter("shortener_database_lookups_total", "Lookups of links in PostgreSQL.",
                   sum.database_lookups);
  text.add_counter("shortener_database_statements_total", "Statements that PostgreSQL was sent.",
                   sum.statements);
  text.add_counter("shortener_dropped_hits_total", "Hits that were not counted.", sum.dropped_hits);
  co_return text.response();
}

// Ends when the shutdown begins; the last hits are written by link_store::stop().
gyre::task<> write_hits_each_second(link_stores& links) {
  for (;;) {
    co_await gyre::sleep_for(1s);
    // One loop after the other: two transactions that update the same links might deadlock.
    for (std::size_t index = 0; index != links.size(); ++index) {
      auto writing = links.call_on(index, &link_store::write_hits);
      co_await gyre::shielded(std::move(writing));
    }
  }
}

gyre::task<> make_table(gyre::event_loop& loop, const settings& options) {
  gyre::postgres::client database(loop, *options.database);
  co_await database.execute_script(schema);
}

gyre::task<> serve(gyre::runtime& rt, settings options) {
  co_await make_table(rt.loops()[0], options);
  lookups flights;
  link_stores links(rt.loops());
  http::server_options limits;
  if (options.certificate) {
    const gyre::tls::certificate own{.chain = gyre::tls::pem::file(*options.certificate),
                                     .key = gyre::tls::pem::file(options.key.value())};
    limits.tcp.transport =
        gyre::tls::server_transport(gyre::tls::tls_context::server({.certificates = {own}}));
  }
  http::server server(rt.loops(), options.address, std::move(limits));
  server.use(service::ask_to_retry);
  server.post("/links", [&](http::request& request) { return add(links, request); },
              {.body_limit = max_target});
  server.get("/{code}", [&](http::request& request) { return follow(links, request); });
  server.get("/links/{code}", [&](http::request& request) { return describe(links, request); });
  server.get("/health", [&](http::request&) { return check_health(links); });
  server.get("/metrics", [&](http::request&) { return show_metrics(links, server); });
  server.on_access(
      [&](const http::access_record& record) { links.local().record(record.duration); });
  co_await links.start(options, &flights);
  rt.spawn(write_hits_each_second(links));
  co_await gyre::finally(service::serve_until_shutdown(rt, server), [&] { return links.stop(); });
}

settings read_settings(std::span<char*> arguments) {
  settings all;
  service::read_arguments(
      arguments,
      {{"--listen", [&](std::string_view text) { all.address = text; }},
       {"--database", [&](std::string_view url) { all.database = service::read_database(url); }},
       {"--redis", [&](std::string_view text) { all.redis = text; }},
       {"--certificate", [&](std::string_view path) { all.certificate = path; }},
       {"--key", [&](std::string_view path) { all.key = path; }}});
  if (!all.database) throw std::invalid_argument("--database is missing");
  if (all.certificate.has_value() != all.key.has_value()) {
    throw std::invalid_argument("--certificate and --key need each other");
  }
  return all;
}

int main(int argc, char** argv) {
  return service::run(argc, argv,
                      "shortener --database URL [--redis HOST:PORT] [--listen ADDRESS:PORT] "
                      "[--certificate FILE --key FILE]",
                      read_settings, serve);
}
