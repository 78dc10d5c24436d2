import { Screen } from '../../components/Screen'

export default function Home() {
  return (
    <Screen title="Home">
      <p className="hb-muted">The time line of all jobs: what ran, what was skipped and why, and what is planned.</p>
    </Screen>
  )
}
