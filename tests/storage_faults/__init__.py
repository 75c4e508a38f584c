"""A store over HTTP that errs, dawdles, breaks off and forgets: what then becomes of the rows."""
