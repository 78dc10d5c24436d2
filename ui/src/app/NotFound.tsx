import { Link } from 'wouter'
import { Screen } from '../components/Screen'

export function NotFound() {
  return (
    <Screen title="Not found">
      <p>
        There is no screen at this address. Go to the <Link href="/">time line</Link> or to the <Link href="/jobs">jobs</Link>, or press{' '}
        <kbd>Ctrl K</kbd> to search.
      </p>
    </Screen>
  )
}
