// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/sync_wait.hpp>
