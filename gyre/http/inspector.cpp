// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/inspector.hpp>

#include <gyre/base/detail/json_text.hpp>
#include <gyre/base/detail/printable_text.hpp>
#include <gyre/base/log_level.hpp>
#include <gyre/exec/loop_thread.hpp>
#include <gyre/http/detail/connection_listing.hpp>
#include <gyre/http/detail/field_lookup.hpp>
#include <gyre/http/error.hpp>
#include <gyre/http/metrics_handler.hpp>
#include <gyre/http/parameter_error.hpp>
#include <gyre/http/request.hpp>
#include <gyre/http/response.hpp>
#include <gyre/http/server.hpp>
#include <gyre/http/server_options.hpp>
#include <gyre/http/status.hpp>
#include <gyre/http/trace_handler.hpp>
#include <gyre/net/address.hpp>
#include <gyre/task/detail/recorded_task.hpp>
#include <gyre/task/live_tasks.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <future>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <utility>
#include <vector>

namespace gyre::http::detail {
namespace {

bool wants_json(const request& request) {
  if (const auto format = request.query<std::optional<std::string>>("format")) {
    if (*format == "json") return true;
    if (*format == "text") return false;
    throw parameter_error("format", "json or text");
  }
  return has_word(request.fields(), "Accept", "application/json");
}

std::size_t limit_of(const request& request, std::size_t max_entries) {
  return std::min(request.query<std::size_t>("limit", max_entries), max_entries);
}

response page_of(std::string text, bool is_json) {
  response page = is_json ? response::json(std::move(text)) : response::text(std::move(text));
  page.set("Cache-Control", "no-store").set("Vary", "Accept");
  return page;
}

void append_member(std::string& output, std::string_view name, std::string_view text) {
  output.append("\"").append(name).append("\":");
  gyre::detail::append_json_string(output, text);
  output += ',';
}
void append_member(std::string& output, std::string_view name, std::uint64_t number) {
  output.append("\"").append(name).append("\":").append(std::to_string(number)) += ',';
}

void append_member(std::string& output, std::string_view name, std::chrono::nanoseconds length) {
  std::array<char, 32> text{};
  const double seconds = std::chrono::duration<double>(length).count();
  const auto end = std::to_chars(text.data(), text.data() + text.size(), seconds).ptr;
  output.append("\"").append(name).append("\":").append(text.data(), end) += ',';
}

std::string tasks_as_json(const std::vector<live_task>& tasks) {
  std::string text = "{\"recorded\":";
  text += gyre::detail::records_live_tasks() ? "true" : "false";
  text += ",\"tasks\":[";
  for (const live_task& task : tasks) {
    text += '{';
    append_member(text, "name", task.name);
    append_member(text, "file", task.from.line() != 0 ? task.from.file_name() : "");
    append_member(text, "line", task.from.line());
    append_member(text, "peer", task.peer);
    append_member(text, "age_seconds", task.age);
    text.append("\"has_begun\":").append(task.has_begun ? "true" : "false").append("},");
  }
  if (text.ends_with(',')) text.pop_back();
  return text += "]}\n";
}

std::string tasks_as_text(const std::vector<live_task>& tasks) {
  std::ostringstream text;
  if (!gyre::detail::records_live_tasks()) {
    text << "live tasks are not recorded: see inspector_options::records_tasks\n";
  }
  for (const live_task& task : tasks) text << task << '\n';
  return std::move(text).str();
}

std::string connections_as_json(const listed_connections& connections) {
  std::string text = "{\"complete\":";
  text += connections.is_complete ? "true" : "false";
  text += ",\"connections\":[";
  for (const listed_connection& connection : connections.connections) {
    text += '{';
    append_member(text, "server", connection.server);
    append_member(text, "id", connection.id);
    append_member(text, "peer", connection.peer);
    append_member(text, "bytes_received", connection.bytes_received);
    append_member(text, "bytes_sent", connection.bytes_sent);
    append_member(text, "pending_output", connection.pending_output);
    text.back() = '}';
    text += ',';
  }
  if (text.ends_with(',')) text.pop_back();
  return text += "]}\n";
}

std::string connections_as_text(const listed_connections& connections) {
  std::string text;
  for (const listed_connection& connection : connections.connections) {
    text.append(gyre::detail::printable_text(connection.server)).append(" #");
    text.append(std::to_string(connection.id)).append(" peer ");
    text.append(gyre::detail::printable_text(connection.peer)).append(", received ");
    text.append(std::to_string(connection.bytes_received));
    text.append(" bytes, sent ").append(std::to_string(connection.bytes_sent));
    text.append(" bytes, ").append(std::to_string(connection.pending_output)).append(" wait\n");
  }
  if (!connections.is_complete) text += "not all connections are shown\n";
  return text;
}

constexpr std::size_t max_level_length = 16;

response log_level_page() {
  return page_of(std::string(to_string(current_log_level())) + "\n", false);
}

response change_log_level(request& request) {
  std::string_view name = request.body();
  while (name.ends_with('\n') || name.ends_with('\r')) name.remove_suffix(1);
  const std::optional<log_level> level = parse_log_level(name);
  if (!level) {
    throw http_error(status::bad_request, "the level is off, error, warning or info");
  }
  set_log_level(*level);
  return log_level_page();
}

inspector_options validate(inspector_options options, const net::endpoint& address) {
  if (address.is_unix() && address.path().empty()) {
    throw std::invalid_argument("gyre::http::inspector: " + address.to_string() +
                                " has no mode, so that every user can connect; use a path");
  }
  if (!address.is_unix() && !address.address().is_loopback()) {
    throw std::invalid_argument("gyre::http::inspector: other machines can reach " +
                                address.to_string() + "; use a Unix socket or a loopback address");
  }
  if (options.max_entries == 0) {
    throw std::invalid_argument("gyre::http::inspector: max_entries must be at least 1");
  }
  return options;
}

// Returns the address as the host of a URL, in which no scope is allowed.
std::string url_host_of(const net::ip_address& address) {
  const std::string text = address.to_string();
  const std::string host = text.substr(0, text.find('%'));
  return address.is_v6() ? "[" + host + "]" : host;
}

server_options options_for(const net::endpoint& address) {
  server_options options;
  options.tcp.name = "inspector";
  options.tcp.max_connections = 64;
  options.tcp.memory_limit = std::size_t{32} << 20U;
  options.limits.body = 0;
  if (address.is_unix()) {
    options.tcp.sockets.file_mode = 0600;
  } else {
    options.hosts = {"localhost", "127.0.0.1", "[::1]", url_host_of(address.address())};
  }
  return options;
}

}  // namespace

/// The thread, the server and the pages of an inspector.
class inspector_core {
 public:
  inspector_core(const metrics::registry& source, const net::endpoint& address,
                 inspector_options settings)
      : options_(validate(settings, address)),
        thread_({.name = "inspector"}),
        server_(thread_, options_for(address)) {
    server_.listen(address);
    if (options_.records_tasks) record_live_tasks(true);
    get("/metrics", metrics_handler(source, options_.limit));
    get("/tasks", [this](request& request) { return show_tasks(request); });
    get("/connections",
        [this](request& request) -> task<response> { return list_connections(request); });
    get("/trace", trace_handler());
    get("/log-level", [](request&) { return log_level_page(); });
    server_.put("/log-level", &change_log_level, {.body_limit = max_level_length});
    server_.get("/", [this](request&) { return page_of(index_, false); });
  }
  inspector_core(const inspector_core&) = delete;
  inspector_core& operator=(const inspector_core&) = delete;
  ~inspector_core() {
    // The promise is shared, because set_value() may still run when wait() returns.
    const auto stop_promise = std::make_shared<std::promise<void>>();
    server_.stop(std::chrono::seconds{1}, [stop_promise] { stop_promise->set_value(); });
    stop_promise->get_future().wait();
  }

  void get(std::string_view pattern, handler function) {
    server_.get(pattern, std::move(function));
    index_.append(pattern).append("\n");
  }
  [[nodiscard]] shown_connections show(std::string name, net::tcp_server& shown_server) {
    return {listing_, listing_->add(std::move(name), shown_server)};
  }
  [[nodiscard]] net::endpoint local_endpoint() const { return server_.local_endpoint(); }
  void start() { server_.start(); }

 private:
  response show_tasks(const request& request) const {
    const bool is_json = wants_json(request);
    const std::vector<live_task> tasks = live_tasks(limit_of(request, options_.max_entries));
    return page_of(is_json ? tasks_as_json(tasks) : tasks_as_text(tasks), is_json);
  }
  task<response> list_connections(request& request) {
    const bool is_json = wants_json(request);
    task<listed_connections> list_task =
        connection_listing::list(listing_, limit_of(request, options_.max_entries), options_.limit);
    const listed_connections connections = co_await std::move(list_task);
    co_return page_of(is_json ? connections_as_json(connections) : connections_as_text(connections),
                      is_json);
  }

  const inspector_options options_;
  std::string index_;
  const std::shared_ptr<connection_listing> listing_ = std::make_shared<connection_listing>();
  loop_thread thread_;
  http::server server_;
};

}  // namespace gyre::http::detail

namespace gyre::http {

inspector::inspector(const metrics::registry& source, const net::endpoint& address,
                     inspector_options options)
    : core_(std::make_unique<detail::inspector_core>(source, address, options)) {}
inspector::~inspector() = default;

shown_connections inspector::show_connections(std::string name, net::tcp_server& server) {
  return core_->show(std::move(name), server);
}

inspector& inspector::get(std::string_view pattern, handler function) {
  core_->get(pattern, std::move(function));
  return *this;
}

net::endpoint inspector::local_endpoint() const { return core_->local_endpoint(); }
void inspector::start() { core_->start(); }

}  // namespace gyre::http
