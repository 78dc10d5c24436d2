/** The path prefix of the page without a slash at its end, "" or "/tools/hourbell": the server writes it into the page. */
export function basePath(): string {
  const meta = document.querySelector<HTMLMetaElement>('meta[name="hourbell-base"]')
  return (meta?.content ?? '/').replace(/\/+$/, '')
}
