# Another clean page; it commits its own work, as a coding agent would.
cat > wiki/global/glossary.md <<'PAGE'
---
summary: Words and what they mean here
sl_refs: [customers]
---

# Glossary

Country: where the first order was shipped to, `customers.country`.
PAGE
git add wiki/global/glossary.md
git commit --quiet --message "Add the glossary"
