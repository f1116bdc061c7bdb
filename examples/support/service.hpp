// SPDX-License-Identifier: Apache-2.0
// Parts of the examples that are services with a database: the command line, the life of a server
// from start to SIGTERM, and 503 while the database is out of reach.
#pragma once

#include <gyre/engines/postgres/client_options.hpp>
#include <gyre/engines/postgres/error.hpp>
#include <gyre/http/error.hpp>
#include <gyre/http/handler.hpp>
#include <gyre/http/server.hpp>
#include <gyre/runtime/runtime.hpp>
#include <gyre/task/task.hpp>

#include <chrono>
#include <functional>
#include <iostream>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace service {

/// Reads "--name value" pairs: `readers` has a function for the value of each name.
///
/// Errors: std::invalid_argument that names the argument, and not its value, which may hold a
/// password; the message of a reader follows.
inline void read_arguments(
    std::span<char*> arguments,
    const std::map<std::string_view, std::function<void(std::string_view)>>& readers) {
  for (std::size_t i = 0; i < arguments.size(); i += 2) {
    const std::string_view name = arguments[i];
    const auto reader = readers.find(name);
    if (reader == readers.end()) {
      throw std::invalid_argument("unknown argument " + std::string(name));
    }
    if (i + 1 == arguments.size()) {
      throw std::invalid_argument(std::string(name) + " needs a value");
    }
    try {
      reader->second(arguments[i + 1]);
    } catch (const std::exception& error) {
      throw std::invalid_argument(std::string(name) + ": " + error.what());
    }
  }
}

/// Runs `serve(rt, settings)` with `settings = read(arguments)`, and returns the exit status: 2,
/// after a message and the usage, if the arguments are wrong.
template <class Read, class Serve>
int run(int argc, char** argv, std::string_view usage, Read read, Serve serve) {
  const std::span<char*> arguments(argv + 1, argv + argc);
  if (argc == 2 && std::string_view(argv[1]) == "--help") {
    std::cout << "usage: " << usage << '\n';
    return 0;
  }
  try {
    auto settings = read(arguments);
    return gyre::runtime::main([&](gyre::runtime& rt) { return serve(rt, std::move(settings)); });
  } catch (const std::invalid_argument& error) {
    std::cerr << error.what() << "\nusage: " << usage << '\n';
    return 2;
  }
}

/// The options of a client whose requests wait: soon failing, unless the URL says otherwise.
inline gyre::postgres::client_options read_database(std::string_view url) {
  using namespace std::chrono_literals;
  auto options = gyre::postgres::client_options::parse(url);
  options.max_connect_attempts = 2;
  if (options.statement_timeout == gyre::duration::max()) options.statement_timeout = 2s;
  return options;
}

/// Whether a later attempt may succeed: the database is out of reach, starts, stops or is too slow.
/// Other errors are mistakes of the request or of the program.
inline bool is_temporary(const std::error_code& error) {
  if (error.category() == gyre::http::http_category()) return false;
  return error.category() != gyre::postgres::postgres_category() ||
         error == std::errc::connection_reset || error == std::errc::timed_out ||
         error == std::errc::resource_unavailable_try_again;
}

/// A middleware that logs such an error of a request, and responds 503 with Retry-After.
inline gyre::task<gyre::http::response> ask_to_retry(gyre::http::request& request,
                                                     gyre::http::next_handler next) {
  try {
    auto answer = next(request);
    co_return co_await std::move(answer);
  } catch (const std::system_error& error) {
    if (!is_temporary(error.code())) throw;
    std::cerr << request.method_text() << ' ' << request.target() << ": " << error.what() << '\n';
  }
  co_return gyre::http::response::text("The service is out of reach. Try again.\n",
                                       gyre::http::status::service_unavailable)
      .set("Retry-After", "1");
}

/// Starts the server, and waits until SIGTERM or SIGINT has stopped it gracefully and the other
/// tasks of the runtime have ended.
inline gyre::task<> serve_until_shutdown(gyre::runtime& rt, gyre::http::server& server) {
  server.start();
  std::cout << "listening on " << server.local_endpoint() << std::endl;
  auto hook = rt.on_shutdown(gyre::shutdown_phase::drain, [&] { return server.stop_async(); });
  co_await rt.drained();
}

}  // namespace service
