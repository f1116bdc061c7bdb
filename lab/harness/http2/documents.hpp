// SPDX-License-Identifier: Apache-2.0
// The folder of files that the servers of the HTTP/2 experiments have in common.
#pragma once

#include <lab/harness/http/site.hpp>

#include <string>

namespace lab::http2 {

/// Makes the folder, unless it is there, with the files plain, upload and file, whose bytes are
/// those of the paths of that name. Returns the site of `file`: some servers have its descriptor,
/// others its path, but all read the same pages of the same file system.
/// Errors: throws std::system_error, and std::filesystem::filesystem_error.
http::site make_documents();

/// Returns the folder of such a site, which ends without a slash.
std::string folder_of(const http::site& documents);

}  // namespace lab::http2
