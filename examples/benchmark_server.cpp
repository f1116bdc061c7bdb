// SPDX-License-Identifier: Apache-2.0
// The endpoints that public comparisons of servers ask for (TechEmpower, HttpArena): one process,
// with a loop on each processor, and a client of PostgreSQL on each loop.
//
//     benchmark_server --database postgresql://app:secret@localhost/app --files FOLDER
//         --listen :8080
//
//     curl localhost:8080/plaintext
//     curl 'localhost:8080/json/3?m=2'                             # 3 items, the total times m
//     curl --data-binary @FILE localhost:8080/upload               # the number of bytes
//     curl localhost:8080/static/index.html                        # a file of FOLDER
//     websocat ws://localhost:8080/ws                              # an echo by WebSocket
//     curl 'localhost:8080/db?min=10&max=20&limit=5'               # items by their price
//     curl 'localhost:8080/queries?n=3'                            # n queries, n random items
//     curl -i -d '{"name": "bolt", "price": 7}' localhost:8080/items
//     curl -i localhost:8080/items/7                               # X-Cache: miss, and then hit
//     curl -X PUT -d '{"name": "nut", "price": 8}' localhost:8080/items/7
//     curl -X DELETE localhost:8080/items/7
//
// All loops share a cache of items in memory. Each change of an item is told to all processes by
// NOTIFY, in the transaction that makes it, and invalidates the item there, also while it is being
// loaded. While a process has lost its connection, it may serve an item for up to ten seconds after
// another process has changed it.
#include <gyre/engines/postgres/client.hpp>
#include <gyre/http/accept_websocket.hpp>
#include <gyre/http/compress.hpp>
#include <gyre/http/file_server.hpp>
#include <gyre/http/server.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/runtime/runtime.hpp>
#include <gyre/runtime/sharded.hpp>
#include <gyre/sync/async_cache.hpp>
#include <gyre/task/finally.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>

#include <examples/support/service.hpp>

#include <array>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace http = gyre::http;
using namespace std::chrono_literals;
using gyre::postgres::statement;
using http::response;
using http::status;

struct settings {
  gyre::net::endpoint address = ":8080";
  std::optional<gyre::postgres::client_options> database;
  std::optional<std::string> files;
};

// PostgreSQL reads and makes the JSON.
constexpr const char* schema =
    "select pg_advisory_xact_lock(6732);"  // one process at a time makes the table
    "create table if not exists item (id bigserial primary key, name text not null, "
    "price integer not null);"
    "create index if not exists item_price on item (price);"
    "insert into item (name, price) select 'item ' || n, n % 500 from generate_series(1, 10000) n "
    "where not exists (select from item)";
const statement find_item("select row_to_json(item)::text from item where id = $1",
                          {.is_idempotent = true});
const statement find_items(
    "select coalesce(json_agg(found), '[]')::text from "
    "(select * from item where price between $1 and $2 order by id limit $3) found",
    {.is_idempotent = true});
const statement add_item(
    "insert into item (name, price) select name, price "
    "from json_to_record($1) as sent (name text, price integer) returning id");
const statement change_item(
    "with changed as (update item set name = sent.name, price = sent.price "
    "from json_to_record($2) as sent (name text, price integer) where id = $1 returning item.*) "
    "select row_to_json(changed)::text from changed, pg_notify('item_changed', changed.id::text)");
const statement remove_item(
    "with removed as (delete from item where id = $1 returning id) "
    "select id from removed, pg_notify('item_changed', removed.id::text)");

using item_cache = gyre::async_cache<std::int64_t, std::string>;
using database_clients = gyre::sharded<gyre::postgres::client>;

std::optional<std::int64_t> parse_number(std::string_view text) {
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [read_end, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || read_end != end) return std::nullopt;
  return number;
}

// A number of the query. Throws http_error (400) unless it is missing, or one of the range.
std::int64_t query_number(const http::request& request, std::string_view name,
                          std::int64_t fallback, std::int64_t lowest, std::int64_t highest) {
  const auto query = request.query();
  const auto text = query.find(name);
  const auto number = text ? parse_number(*text) : fallback;
  if (number && *number >= lowest && *number <= highest) return *number;
  throw http::http_error(status::bad_request, std::string(name) + " must be a number from " +
                                                  std::to_string(lowest) + " to " +
                                                  std::to_string(highest) + ".");
}

response make_json(http::request& request) {
  static constexpr std::array<std::string_view, 5> names = {"bolt", "nut", "screw", "nail", "hook"};
  const auto count = parse_number(request.raw_param("count"));
  if (!count || *count < 0 || *count > 1000) return {status::not_found};
  const std::int64_t factor = query_number(request, "m", 1, 1, 1'000'000);
  std::string text = "{\"count\":" + std::to_string(*count) + ",\"items\":[";
  for (std::int64_t id = 1; id <= *count; ++id) {
    const std::int64_t price = 10 + id % 90;
    const std::int64_t quantity = 1 + id % 7;
    if (id > 1) text += ',';
    text.append("{\"id\":").append(std::to_string(id));
    text.append(",\"name\":\"").append(names[static_cast<std::size_t>(id) % names.size()]);
    text.append("\",\"price\":").append(std::to_string(price));
    text.append(",\"quantity\":").append(std::to_string(quantity));
    text.append(",\"total\":").append(std::to_string(price * quantity * factor)).append("}");
  }
  return response::json(std::move(text += "]}"));
}

gyre::task<response> count_upload(http::request& request) {
  std::uint64_t total = 0;
  while (const auto piece = co_await request.next_chunk()) total += piece->size();
  co_return response::text(std::to_string(total));
}

gyre::task<> echo(http::websocket& socket) {
  while (const auto message = co_await socket.receive()) co_await socket.send(*message);
}

gyre::task<response> list_items(database_clients& clients, http::request& request) {
  constexpr std::int64_t highest = std::numeric_limits<std::int32_t>::max();
  const std::int64_t min_price = query_number(request, "min", 0, 0, highest);
  const std::int64_t max_price = query_number(request, "max", highest, 0, highest);
  const std::int64_t limit = query_number(request, "limit", 50, 1, 1000);
  std::string text =
      co_await clients.local().query_one<std::string>(find_items, min_price, max_price, limit);
  co_return response::json(std::move(text));
}

// Each item is a query of its own; they are in flight at the same time.
gyre::task<response> query_items(database_clients& clients, http::request& request) {
  static thread_local std::minstd_rand random{std::random_device()()};
  const std::int64_t count = query_number(request, "n", 1, 1, 500);
  std::uniform_int_distribution<std::int64_t> any_id(1, 10'000);
  std::vector<gyre::task<std::optional<std::string>>> queries;
  for (std::int64_t i = 0; i != count; ++i) {
    queries.push_back(clients.local().query_optional<std::string>(find_item, any_id(random)));
  }
  const auto found = co_await gyre::when_all(std::move(queries));
  std::string text = "[";
  for (const auto& each : found) {
    if (each) text.append(text.size() > 1 ? "," : "").append(*each);
  }
  co_return response::json(std::move(text += "]"));
}

// Items that are created, read, updated and deleted by their id.
class item_pages {
 public:
  item_pages(database_clients& clients, item_cache& items) : clients_(clients), items_(items) {}

  gyre::task<response> create(http::request& request) {
    auto adding = clients_.local().query_one<std::int64_t>(add_item, request.body());
    const std::int64_t id = co_await check_item(std::move(adding));
    co_return response(status::created).set("Location", "/items/" + std::to_string(id));
  }

  gyre::task<response> read(http::request& request) {
    const std::int64_t id = id_of(request);
    std::shared_ptr<const std::string> text = items_.try_get(id);
    const bool is_hit = text != nullptr;
    if (!is_hit) {
      // One request loads it for all that wait; a missing item is not kept.
      auto load_here = [this](std::int64_t wanted) { return load(wanted); };
      text = co_await items_.get(id, load_here);
    }
    co_return response::json(*text).set("X-Cache", is_hit ? "hit" : "miss");
  }

  gyre::task<response> update(http::request& request) {
    const std::int64_t id = id_of(request);
    auto changing = clients_.local().query_optional<std::string>(change_item, id, request.body());
    std::optional<std::string> text = co_await check_item(std::move(changing));
    items_.invalidate(id);  // at once, for the next request of this client
    if (!text) co_return response(status::not_found);
    co_return response::json(std::move(*text));
  }

  gyre::task<response> remove(http::request& request) {
    const std::int64_t id = id_of(request);
    const auto removed = co_await clients_.local().query_optional<std::int64_t>(remove_item, id);
    items_.invalidate(id);
    co_return response(removed ? status::no_content : status::not_found);
  }

 private:
  static std::int64_t id_of(const http::request& request) {
    const auto id = parse_number(request.raw_param("id"));
    return id ? *id : throw http::http_error(status::not_found);
  }

  gyre::task<std::string> load(std::int64_t id) {
    auto text = co_await clients_.local().query_optional<std::string>(find_item, id);
    if (!text) throw http::http_error(status::not_found);
    co_return std::move(*text);
  }

  // Awaits a statement that reads an item of the client's: 400 if it is none.
  template <class Result>
  static gyre::task<Result> check_item(gyre::task<Result> storing) {
    try {
      co_return co_await std::move(storing);
    } catch (const gyre::postgres::server_error& error) {
      const std::string_view kind = std::string_view(error.sqlstate()).substr(0, 2);
      // Data, constraints, and limits of the server, such as the depth of JSON.
      if (kind != "22" && kind != "23" && kind != "54") throw;
      throw http::http_error(status::bad_request,
                             "The body must be {\"name\": text, \"price\": number}.");
    }
  }

  database_clients& clients_;
  item_cache& items_;
};

// Invalidates items that any process has changed, until the shutdown begins.
gyre::task<> follow_changes(gyre::postgres::subscription changes, item_cache& items) {
  while (const auto change = co_await changes.next()) {
    if (change->follows_gap) items.clear();
    if (const auto id = parse_number(change->payload)) items.invalidate(*id);
  }
}

gyre::task<> serve(gyre::runtime& rt, settings options) {
  gyre::loop& first = rt.loops()[0];
  gyre::postgres::client database(first, *options.database);
  co_await database.execute_script(schema);
  gyre::postgres::subscription changes = co_await database.listen("item_changed");

  item_cache::options limits{.capacity = 100'000, .weight_limit = std::size_t{64} << 20};
  limits.weigher = [](std::int64_t, const std::string& text) { return text.size(); };
  limits.time_to_live = 10s;
  limits.clock = first.timers();
  item_cache items(std::move(limits));
  database_clients clients(rt.loops());
  item_pages pages(clients, items);

  http::server server(rt.loops(), options.address);
  server.use(service::ask_to_retry);
  server.use(http::compress({.min_size = 1024}));
  server.get("/plaintext", [](http::request&) {
    return response::borrowed("text/plain; charset=utf-8", "Hello, World!");
  });
  server.get("/json/{count}", make_json);
  server.post("/upload", count_upload, {.streamed_body = true});
  server.get("/ws", [](http::request& request) { return http::accept_websocket(request, echo); });
  if (options.files) {
    server.get("/static/{path...}", http::file_server(*options.files, {.precompressed = true}));
  }
  server.get("/db", [&](http::request& request) { return list_items(clients, request); });
  server.get("/queries", [&](http::request& request) { return query_items(clients, request); });
  server.post("/items", [&](http::request& request) { return pages.create(request); });
  server.get("/items/{id}", [&](http::request& request) { return pages.read(request); });
  server.put("/items/{id}", [&](http::request& request) { return pages.update(request); });
  server.delete_("/items/{id}", [&](http::request& request) { return pages.remove(request); });

  co_await clients.start(*options.database);
  rt.spawn(first, follow_changes(std::move(changes), items));
  co_await gyre::finally(service::serve_until_shutdown(rt, server), [&] { return clients.stop(); });
}

settings read_settings(std::span<char*> arguments) {
  settings all;
  service::read_arguments(
      arguments,
      {{"--listen", [&](std::string_view text) { all.address = text; }},
       {"--database", [&](std::string_view url) { all.database = service::read_database(url); }},
       {"--files", [&](std::string_view path) { all.files = path; }}});
  if (!all.database) throw std::invalid_argument("--database is missing");
  return all;
}

int main(int argc, char** argv) {
  return service::run(argc, argv,
                      "benchmark_server --database URL [--listen ADDRESS:PORT] [--files FOLDER]",
                      read_settings, serve);
}
