// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/trace_handler.hpp>

#include <gyre/http/error.hpp>
#include <gyre/http/status.hpp>
#include <gyre/trace/dump.hpp>

#include <chrono>
#include <cstdint>
#include <string>

namespace gyre::http {
namespace {

response respond_with_trace(request& request) {
  trace::dump_options options;
  options.last = std::chrono::seconds(request.query<std::uint32_t>("seconds", 30));
  options.slow = std::chrono::milliseconds(request.query<std::uint32_t>("slow_ms", 5));
  const std::string format = request.query<std::string>("format", "text");
  if (format == "text") {
    return response::text(trace::dump_text(options)).set("Cache-Control", "no-store");
  }
  if (format == "json") {
    return response::json(trace::dump_json(options))
        .set("Cache-Control", "no-store")
        .set("Content-Disposition", "attachment; filename=\"trace.json\"");
  }
  throw http_error(status::bad_request, "the format of a trace is text or json");
}

}  // namespace

handler trace_handler() { return handler(&respond_with_trace); }

}  // namespace gyre::http
