// SPDX-License-Identifier: Apache-2.0
// trace_handler: a page with what the flight recorder has kept, for operators.
//
//     server.get("/debug/trace", gyre::http::trace_handler());
#pragma once

#include <gyre/http/handler.hpp>

namespace gyre::http {

/// Returns a handler that responds with trace::dump_text(), or with `?format=json` with
/// trace::dump_json(), which the browser stores as a file for Perfetto. `?seconds=5` limits how far
/// back the dump goes, `?slow_ms=1` is the shortest time that the text mentions. Other values get
/// 400.
///
/// The page names functions, routes and hosts, so serve it only to operators: on a port or a Unix
/// socket of their own, or behind an authentication.
///
/// Complexity: a dump takes milliseconds, in which the loop of the connection serves nothing else.
handler trace_handler();

}  // namespace gyre::http
