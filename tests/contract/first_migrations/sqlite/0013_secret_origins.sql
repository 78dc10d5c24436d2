-- A secret that is sent is bound to the origin it was set for. Rows from before have none, and are not sent.
alter table hourbell_secrets add column origin text;
