// TENON_LOG: how much is logged on stderr.
#pragma once

namespace tenon::cli {

// Reads TENON_LOG (trace, debug, info, warn, error, off; default warn). Throws UserError.
void set_up_log();

}  // namespace tenon::cli
