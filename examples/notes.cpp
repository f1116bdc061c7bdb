// SPDX-License-Identifier: Apache-2.0
// Keeps notes in an SQLite database, by a REST interface: {"text": "milk"}.
//
//     notes DATABASE [ADDRESS:PORT [CERTIFICATE KEY]]  # with them over TLS
//
//     GET /notes               the latest hundred
//     POST /notes              adds one: 201, with its Location
//     GET, PUT, DELETE /notes/7
#include <gyre/http/server.hpp>
#include <gyre/io/blocking_pool.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/runtime/runtime.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/task.hpp>
#include <gyre/tls/tls_context.hpp>
#include <gyre/tls/transport.hpp>

#include <sqlite3.h>

#include <charconv>
#include <cstdint>
#include <iostream>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

using gyre::http::request;
using gyre::http::response;
using gyre::http::status;

struct close_database {
  void operator()(::sqlite3* open) const { ::sqlite3_close_v2(open); }
};
struct finalize_statement {
  void operator()(::sqlite3_stmt* open) const { ::sqlite3_finalize(open); }
};
using statement = std::unique_ptr<::sqlite3_stmt, finalize_statement>;

// SQLite makes the JSON. Its calls may wait for a disk, so they are made on the blocking pool.
class database {
 public:
  explicit database(const char* path) {
    ::sqlite3* opened = nullptr;
    const int error = ::sqlite3_open(path, &opened);
    file_.reset(opened);
    check(error);
    ::sqlite3_busy_timeout(opened, 5000);
    check(::sqlite3_exec(opened,
                         "PRAGMA journal_mode = WAL;"
                         "CREATE TABLE IF NOT EXISTS notes"
                         "(id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT NOT NULL)",
                         nullptr, nullptr, nullptr));
    list = prepare(
        "SELECT json_group_array(json(note)) FROM (SELECT json_object('id', id, 'text', text) "
        "AS note FROM notes ORDER BY id DESC LIMIT 100)");
    find = prepare("SELECT json_object('id', id, 'text', text) FROM notes WHERE id = :id");
    add = prepare("INSERT INTO notes(text) VALUES (json_extract(:note, '$.text')) RETURNING id");
    change = prepare(
        "UPDATE notes SET text = json_extract(:note, '$.text') WHERE id = :id "
        "RETURNING json_object('id', id, 'text', text)");
    remove = prepare("DELETE FROM notes WHERE id = :id RETURNING id");
  }

  // The first row, if there is one.
  std::optional<std::string> run(const statement& query, std::int64_t id, std::string_view note) {
    const std::lock_guard one_at_a_time(mutex_);
    ::sqlite3_stmt* const made = query.get();
    if (const int at = ::sqlite3_bind_parameter_index(made, ":id")) {
      ::sqlite3_bind_int64(made, at, id);
    }
    if (const int at = ::sqlite3_bind_parameter_index(made, ":note")) {
      ::sqlite3_bind_text64(made, at, note.data(), note.size(), SQLITE_STATIC, SQLITE_UTF8);
    }
    std::optional<std::string> row;
    int result = ::sqlite3_step(made);
    while (result == SQLITE_ROW) {
      const auto* const text = reinterpret_cast<const char*>(::sqlite3_column_text(made, 0));
      if (text == nullptr) break;
      row.emplace(text, static_cast<std::size_t>(::sqlite3_column_bytes(made, 0)));
      result = ::sqlite3_step(made);
    }
    const std::string message = ::sqlite3_errmsg(file_.get());
    ::sqlite3_reset(made);
    ::sqlite3_clear_bindings(made);
    if (result == SQLITE_DONE) return row;
    // The statements are right, so the note is not: malformed JSON, or no "text".
    if (result == SQLITE_ERROR || result == SQLITE_CONSTRAINT) {
      throw gyre::http::http_error(status::bad_request, message);
    }
    throw std::runtime_error(message);
  }

  statement list, find, add, change, remove;

 private:
  void check(int error) const {
    if (error != SQLITE_OK) throw std::runtime_error(::sqlite3_errmsg(file_.get()));
  }
  statement prepare(const char* text) {
    ::sqlite3_stmt* made = nullptr;
    check(::sqlite3_prepare_v3(file_.get(), text, -1, SQLITE_PREPARE_PERSISTENT, &made, nullptr));
    return statement(made);
  }

  std::unique_ptr<::sqlite3, close_database> file_;
  std::mutex mutex_;
};

gyre::task<std::optional<std::string>> run(database& notes, const statement& query, std::int64_t id,
                                           std::string_view note) {
  co_return notes.run(query, id, note);
}

gyre::task<std::optional<std::string>> query(database& notes, const statement& query,
                                             const request& request) {
  std::int64_t id = 0;
  const std::string text = request.param("id");
  const char* const end = text.data() + text.size();
  if (std::from_chars(text.data(), end, id).ptr != end) id = 0;  // no note has that
  auto running = gyre::on(gyre::io::blocking_pool(), run(notes, query, id, request.body()));
  co_return co_await std::move(running);
}

gyre::task<response> answer(database& notes, const statement& used, const request& request) {
  auto row = co_await query(notes, used, request);
  if (!row) co_return response(status::not_found);
  co_return response::json(std::move(*row));
}

gyre::task<response> add(database& notes, const request& request) {
  auto id = co_await query(notes, notes.add, request);
  co_return response(status::created).set("Location", "/notes/" + id.value());
}

gyre::task<response> remove(database& notes, const request& request) {
  auto id = co_await query(notes, notes.remove, request);
  co_return response(id ? status::no_content : status::not_found);
}

gyre::task<> serve(gyre::runtime& rt, database& notes, gyre::net::endpoint address,
                   gyre::http::server_options options) {
  gyre::http::server server(rt.loops(), address, std::move(options));
  server.get("/notes", [&](request& request) { return answer(notes, notes.list, request); });
  server.post("/notes", [&](request& request) { return add(notes, request); });
  server.get("/notes/{id}", [&](request& request) { return answer(notes, notes.find, request); });
  server.put("/notes/{id}", [&](request& request) { return answer(notes, notes.change, request); });
  server.delete_("/notes/{id}", [&](request& request) { return remove(notes, request); });
  server.start();
  std::cout << "listening on " << server.local_endpoint() << std::endl;

  auto hook = rt.on_shutdown(gyre::shutdown_phase::drain, [&] { return server.stop_async(); });
  co_await rt.drained();
}

int main(int argc, char** argv) {
  if (argc < 2 || argc == 4) {
    std::cerr << "usage: notes DATABASE [ADDRESS:PORT [CERTIFICATE KEY]]\n";
    return 2;
  }
  const char* address = argc > 2 ? argv[2] : "[::]:8080";
  return gyre::runtime::main([&](gyre::runtime& rt) -> gyre::task<> {
    database notes(argv[1]);
    gyre::http::server_options options;
    if (argc > 4) {
      const gyre::tls::certificate own{.chain = gyre::tls::pem::file(argv[3]),
                                       .key = gyre::tls::pem::file(argv[4])};
      options.tcp.transport =
          gyre::tls::server_transport(gyre::tls::tls_context::server({.certificates = {own}}));
    }
    co_await serve(rt, notes, address, std::move(options));
  });
}
